"""What must hold on a GPU, and how fast thinwire is there, in about ten minutes.

    python benchmarks/gpu.py [--device cpu] [--profile FILE] [--record]

Each part prints one line of JSON when it ends: its name, its seconds, whether everything held, its figures,
and what did not hold. A part that fails does not stop the others. With `--device cpu` the same parts run
without a GPU, on less data; a part that cannot says why. `--profile` writes the figures of the last part as a
compute profile for `thinwire simulate`. The parts need no files and no network. Exits with 0 only if
everything held.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import record
import torch
import yaml
from gpu_parts import (
    codec_passes,
    compute_profile,
    engine_ratio,
    equal_bits,
    memory_of_workers,
    operations,
    ranks_on_one_device,
    replicas,
    waits_of_methods,
)
from gpu_parts.part import Found, NotHere, Place

from thinwire.config.clusters import Device
from thinwire.train.cell_task import deterministic

PARTS: dict[str, Callable[[Place], Found]] = {
    "operations": operations.part,
    "equal_bits": equal_bits.part,
    "engine_ratio": engine_ratio.part,
    "waits_of_methods": waits_of_methods.part,
    "codec_passes": codec_passes.part,
    "memory_of_workers": memory_of_workers.part,
    "ranks_on_one_device": ranks_on_one_device.part,
    "replicas": replicas.part,
    "compute_profile": compute_profile.part,
}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where the workers compute")
    parser.add_argument("--profile", type=Path, help="write the compute profile of the device to this file")


def main(arguments: argparse.Namespace) -> int:
    """Run all parts, and report whether everything held."""
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("benchmarks/gpu.py: torch finds no GPU here: use --device cpu", file=sys.stderr)
        return 2
    device = torch.device("cuda", 0) if arguments.device == "cuda" else torch.device("cpu")
    deterministic(device)
    lines = [run(name, part, Place(device)) for name, part in PARTS.items()]
    figures = lines[-1]["figures"]
    if arguments.profile and figures:
        Device.model_validate(figures)
        arguments.profile.write_text(yaml.safe_dump(figures, sort_keys=False))
    held = sum(line["held"] for line in lines)
    print(f"{held} of {len(lines)} parts held")
    return int(held < len(lines))


def run(name: str, part: Callable[[Place], Found], place: Place) -> dict[str, Any]:
    """Run a part and print its line; whatever it raises is its result."""
    began = time.perf_counter()
    found, not_here = Found(), None
    try:
        found = part(place)
    except NotHere as why:
        not_here = str(why)
    except Exception as error:
        found.broken.append(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    line: dict[str, Any] = {
        "part": name,
        "seconds": round(time.perf_counter() - began, 1),
        "held": not found.broken,
        "figures": _rounded(found.figures),
    }
    line |= {"broken": found.broken} if found.broken else {}
    line |= {"not_here": not_here} if not_here else {}
    print(json.dumps(line), flush=True)
    return line


def _rounded(figures: Any) -> Any:
    """Four digits of every number are enough."""
    if isinstance(figures, dict):
        return {name: _rounded(value) for name, value in figures.items()}
    return float(f"{figures:.4g}") if isinstance(figures, float) else figures


if __name__ == "__main__":
    sys.exit(record.run(main, options))
