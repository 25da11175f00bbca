"""The gateway beside its peers, in one run: `make bench-gateway`.

One worker process each, the ledger on a real disk. LiteLLM's proxy and Portkey's gateway are
installed once into `.bench/proxies`, pinned. A peer that cannot be installed is left out and named.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway.load import KEY, Figures, chat, loaded
from gateway.ours import serving
from gateway.processes import Started, free_port, listening, started

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".bench" / "proxies"
PAGE = ROOT / "docs" / "benchmarks-gateway.md"
ROUNDS = 3
LITELLM = "1.108.4"
PORTKEY = "1.15.2"
_CONFIG = """model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "{base}", api_key: none}}
general_settings: {{master_key: {key}}}
"""
CORE = None
"""The measured server is one process that runs on any core; the load and the upstream share the
second core."""
BARS = {
    ("requests", "litellm"): 80.0,
    ("requests", "portkey"): 8.0,
    ("requests", "through"): 0.5,
    ("streams", "litellm"): 150.0,
}


@contextlib.contextmanager
def litellm(base: str) -> Iterator[Started]:
    """Start LiteLLM's proxy, installed where it is not yet."""
    venv = PLACE / "litellm"
    if not (venv / "bin" / "litellm").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        pip = [str(venv / "bin" / "pip"), "install", "--quiet"]
        # What it depends on comes with whichever version can be resolved; then the pinned one.
        subprocess.run([*pip, "litellm[proxy]"], check=True)
        subprocess.run([*pip, "--no-deps", f"litellm=={LITELLM}"], check=True)
    config, port = PLACE / "litellm.yaml", free_port()
    config.write_text(_CONFIG.format(base=base, key=KEY))
    command = [str(venv / "bin" / "litellm"), "--config", str(config), "--port", str(port)]
    command += ["--num_workers", "1", "--host", "127.0.0.1"]
    more = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    with listening(command, port, core=CORE, patience=90, environment=more) as server:
        yield server


@contextlib.contextmanager
def portkey() -> Iterator[Started]:
    """Start Portkey's gateway, installed where it is not yet."""
    folder, port = PLACE / "portkey", free_port()
    main = folder / "node_modules/@portkey-ai/gateway/build/start-server.js"
    if not main.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # With a later server of node's its streams fail.
        wanted = {"dependencies": {"@portkey-ai/gateway": PORTKEY}, "overrides": {"@hono/node-server": "1.14.1"}}
        (folder / "package.json").write_text(json.dumps(wanted))
        subprocess.run(["npm", "install", "--silent"], cwd=folder, check=True)
    command = ["node", str(main), f"--port={port}", "--headless"]
    with listening(command, port, core=CORE, patience=60) as server:
        yield server


def first_answer(upstream: Started) -> float:
    """Return the seconds from starting the gateway to its first answer."""
    begun = time.monotonic()
    with serving(upstream, CORE) as server:
        request = urllib.request.Request(server.url(), chat(300).encode(), {"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
        return time.monotonic() - begun


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=5)
    arguments.add_argument("--without", action="append", default=[])
    given = arguments.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(started("gateway.upstream", "--together", "10", core=1))
        base = upstream.url("/v1")
        servers: dict[str, tuple[Started, Mapping[str, str]]] = {
            "upstream": (upstream, {}),
            "through": (stack.enter_context(started("gateway.passthrough", upstream.url(), core=CORE)), {}),
            "modelpact": (stack.enter_context(serving(upstream, CORE)), {}),
        }
        custom = {"x-portkey-provider": "openai", "x-portkey-custom-host": base}
        for name, peer, headers in (("litellm", lambda: litellm(base), {}), ("portkey", portkey, custom)):
            if name in given.without:
                continue
            try:
                servers[name] = (stack.enter_context(peer()), headers)
            except (SystemExit, OSError, subprocess.CalledProcessError) as error:
                print(f"{name} is left out: {error}", flush=True)
        found = measure(servers, given.seconds)
        lines = judged(found, min(first_answer(upstream) for _ in range(3)))
        print("", *lines, sep="\n")
        if not given.without:
            write(found, lines, given.seconds)


CASES = {
    "requests": (chat(300), 32),
    "128 clients": (chat(300), 128),
    "one by one": (chat(300), 1),
    "20 KB": (chat(20_000), 32),
    "streams": (chat(300, stream=True), 32),
}
"""A body, and over how many connections it is sent at once. A stream has a hundred events."""


def measure(servers: Mapping[str, tuple[Started, Mapping[str, str]]], seconds: int) -> dict[tuple[str, str], Figures]:
    """Put each under each load in turn, a few times over, and keep the best of each."""
    found: dict[tuple[str, str], Figures] = {}
    for case, (body, connections) in CASES.items():
        for turn in range(ROUNDS + 1):
            for name, (server, headers) in servers.items():
                how = {"connections": connections, "headers": headers}
                try:
                    if not turn:
                        warmed_up(server, body, how)
                        continue
                    figures = loaded(server, body, seconds=seconds, **how)  # type: ignore[arg-type]
                except SystemExit as error:
                    print(f"{case:12} {name:10} failed: {error}", flush=True)
                    continue
                best = found.get((case, name))
                if best is None or figures.rate > best.rate:
                    found[case, name] = figures
        for name in servers:
            if (case, name) in found:
                print(f"{case:12} {name:10} {found[case, name]}", flush=True)
    return found


def warmed_up(server: Started, body: str, how: Mapping[str, object]) -> None:
    """Load a server until it answers: some take seconds over their first requests."""
    for left in range(10, -1, -1):
        try:
            loaded(server, body, seconds=2, **how)  # type: ignore[arg-type]
            return
        except SystemExit:
            if not left:
                raise


def judged(found: Mapping[tuple[str, str], Figures], start: float) -> list[str]:
    """Say how the gateway stands beside the others, and against the bars."""
    lines = []
    for (case, peer), bar in BARS.items():
        if (case, peer) in found and (case, "modelpact") in found:
            ratio = found[case, "modelpact"].rate / found[case, peer].rate
            verdict = "met" if ratio >= bar else "MISSED"
            lines.append(f"{case}: {ratio:,.2f} times {peer} (at least {bar:g}: {verdict})")
    alone = [found.get(("one by one", name)) for name in ("modelpact", "upstream")]
    if alone[0] is not None and alone[1] is not None:
        added = (alone[0].p50 - alone[1].p50) * 1e3
        verdict = "met" if added <= 0.7 else "MISSED"
        lines.append(f"added latency, one connection: {added:.2f} ms (at most 0.7: {verdict})")
    verdict = "met" if start < 1 else "MISSED"
    lines.append(f"start to first answer: {start:.2f} s (under 1: {verdict})")
    return lines


def write(found: Mapping[tuple[str, str], Figures], lines: list[str], seconds: int) -> None:
    """Write the page."""
    names = list(dict.fromkeys(name for _, name in found))
    rows = [
        f"| {case} | {name} | {best.rate:,.0f} | {best.p50 * 1e3:.2f} | {best.p99 * 1e3:.2f} "
        f"| {best.processor * 1e6:,.0f} |"
        for case in CASES
        for name in names
        if (best := found.get((case, name))) is not None
    ]
    page = [
        "# Benchmarks of the gateway",
        "",
        "`make bench-gateway` writes this page; do not edit it. Each server runs as one worker",
        f"on loopback, in turns; the best of {ROUNDS} rounds of {seconds} s under wrk counts. The",
        "load and the upstream share a core. `through` is a bare pass-through on the same server",
        "and client. `modelpact` is `modelpact serve` with its ledger on the disk,",
        "`synchronous=FULL`, and two durable commits per request. A process beside the worker",
        "makes the commits, and its CPU time is included.",
        "",
        f"LiteLLM {LITELLM}, Portkey {PORTKEY}. Absolute figures are this machine's.",
        "",
        *(f"- {line}" for line in lines),
        "",
        "| load | server | per second | p50 ms | p99 ms | CPU µs per request |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
    ]
    PAGE.write_text("\n".join(page))
    print(f"\nwritten: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
