"""Importing: fresh processes, net of Python's own start, interleaved, medians."""

import sys

from rows import Row, emit
from timing import median, processes

MODULES = ("msgspec", "modelpact", "litellm", "pydantic_ai", "langchain_openai")
COUNTS = {"": 41, "msgspec": 41, "modelpact": 41} | dict.fromkeys(MODULES[2:], 7)


def main() -> None:
    commands = {"": [sys.executable, "-c", "pass"]}
    commands |= {name: [sys.executable, "-c", f"import {name}"] for name in MODULES}
    times = {name: median(each) for name, each in processes(commands, COUNTS).items()}
    net = {name: times[name] - times[""] for name in MODULES}
    ours = net["modelpact"]
    emit(
        Row("`import modelpact`", ours, net["msgspec"], "import msgspec", "s", "at most", 2.5),
        Row("`import modelpact`", ours, net["litellm"], "import litellm", "s", "at least", 25),
        Row("`import modelpact`", ours, net["pydantic_ai"], "import pydantic_ai"),
        Row("`import modelpact`", ours, net["langchain_openai"], "import langchain_openai"),
        note=(
            f"Wall time of fresh processes less that of `python -c pass` "
            f"({times[''] * 1e3:.0f} ms); medians of {COUNTS['modelpact']} interleaved runs, "
            f"{COUNTS['litellm']} for the three large peers; bytecode is cached for all."
        ),
    )


if __name__ == "__main__":
    main()
