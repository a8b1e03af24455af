"""How long four ranks on this machine take until they are connected.

    python benchmarks/launch.py [--record]

Starts a run of four workers in two ways, alternately: by the warm fork of `thinwire run`, and as four
separate processes, as srun or torchrun start them. For both it prints the seconds from the command until all
ranks have joined and opened their channels. Last it prints the seconds of the fork alone, after the parent's
import, with their target. Exits with 0 only if the target is met.
"""

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import record

from thinwire.plugins import ROOT

WORKERS = 4
ROUNDS = 5
TARGET_SECONDS = 0.5
CELL = "digits/cnn/ssgd/w4/seed0"
READY = re.compile(rf"{WORKERS} ranks are ready after ([\d.]+) s")


def main(arguments: argparse.Namespace) -> int:
    """Measure, and report whether the target is met."""
    totals: dict[str, list[float]] = {"warm fork": [], "four processes": []}
    forks = []
    for _ in range(ROUNDS):
        total, after_import = until_ready({})
        totals["warm fork"].append(total)
        forks.append(after_import)
        totals["four processes"].append(
            until_ready(*map(variables, range(WORKERS), [free_port()] * WORKERS))[0]
        )
    for how, seconds in totals.items():
        print(f"{how}: {median(seconds):.2f} s from the command until {WORKERS} ranks are ready")
    print(f"warm fork: {median(forks):.2f} s after the parent's import (target <= {TARGET_SECONDS})")
    return int(median(forks) > TARGET_SECONDS)


def until_ready(*environments: dict[str, str]) -> tuple[float, float]:
    """Start a process with each environment, and wait until the run's log says that its ranks are ready.

    Returns the seconds since the start, and the seconds that the log gives: those since the ranks started.
    """
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, "-m", "thinwire"]
        subprocess.run([*command, "data", "digits", "--results", results], check=True, capture_output=True)
        command += ["run", "demo", CELL, "--transport", "processes", "--results", results]
        began = time.perf_counter()
        processes = [
            subprocess.Popen(command, cwd=ROOT, env=os.environ | more, stdout=subprocess.DEVNULL)
            for more in environments
        ]
        while (found := seconds_in_log(Path(results))) is None:
            assert any(process.poll() is None for process in processes), "the run ended before it was ready"
            time.sleep(0.005)
        total = time.perf_counter() - began
        for process in processes:
            process.wait()
        return total, found


def seconds_in_log(results: Path) -> float | None:
    """The seconds until the ranks were ready, from the log of the current run, if they are in it."""
    for log in results.rglob("log.txt"):
        if match := READY.search(log.read_text()):
            return float(match[1])
    return None


def variables(rank: int, port: int) -> dict[str, str]:
    """The environment variables that torchrun would set for a rank."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORKERS, "MASTER_PORT": port}
    return {name: str(value) for name, value in numbers.items()} | {
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
    }


def free_port() -> int:
    """A free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(record.run(main))
