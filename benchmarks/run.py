"""Run the benchmarks and write `docs/benchmarks.md`: `make bench`, or `run.py --only NAME`.

A missed bar is said plainly but is no failure: the machine may have been busy.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import environment
import report
from rows import Row

HERE = Path(__file__).resolve().parent
PAGE = environment.ROOT / "docs" / "benchmarks.md"


def measure(name: str) -> report.Result:
    """Run one benchmark in the environment of the peers."""
    answer = subprocess.run(
        [str(environment.PYTHON), str(HERE / f"bench_{name}.py")],
        capture_output=True,
        text=True,
        check=False,
        env=environment.clean(),
    )
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or ["no message"])[-1]
        return report.Result(name, failed=last[:300])
    said = json.loads(answer.stdout.splitlines()[-1])
    rows = [Row(**row) for row in said["rows"]]
    return report.Result(name, rows, said["note"], said.get("skipped", ""))


def main() -> int:
    """Run all, or only one; only a run of all writes the page."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", choices=tuple(report.HEADINGS), metavar="NAME")
    only = arguments.parse_args().only
    environment.ensure()
    versions = environment.versions()
    print(", ".join(f"{name} {version}" for name, version in versions.items()) + "\n")
    results = []
    for name in [only] if only else list(report.HEADINGS):
        results.append(measure(name))
        print(report.table(results[-1]), flush=True)
    print(report.summary(results))
    if any(result.failed for result in results):
        print(f"{PAGE.relative_to(environment.ROOT)} is left as it was: a benchmark failed")
    elif not only:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(report.document(results, versions))
        print(f"written: {PAGE.relative_to(environment.ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
