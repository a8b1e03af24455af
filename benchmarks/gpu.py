"""What must hold on a GPU, and how fast thinwire is there, in about a quarter of an hour.

    python benchmarks/gpu.py [--device cpu] [--parts NAME...] [--record [--out FOLDER]]

Each part prints one line of JSON when it ends: its name, its seconds, whether everything held, its figures,
and what did not hold. A part that fails, hangs or takes too long does not stop the others. With `--device
cpu` the same parts run without a GPU, on little data; a part that cannot says why. Exits with 0 only if
everything held.

It needs Python, torch, the packages in `NEEDED`, and neither an installed thinwire nor a network.
`benchmarks/gpu_wheels.sh` fetches packages that are missing on a machine, for a folder that is carried there.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from functools import partial
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What the parts import beside the standard library and torch, by the names of the modules.
NEEDED = (
    *("numpy", "torchvision", "yaml", "pyarrow", "rich", "safetensors"),
    *("pydantic", "pydantic_core", "annotated_types", "typing_inspection", "typing_extensions", "greenlet"),
)
NAMES = (
    "device_group",
    "operations",
    "compute_rates",
    "engine_ratio",
    "augmentation",
    "prefetch",
    "waits_of_methods",
    "codec_passes",
    "resumed_run",
    "full_memory",
    "ranks_on_one_device",
    "equal_bits",
    "memory_of_workers",
    "steps_of_methods",
    "replicas",
)


def _require_packages() -> None:
    """End with one sentence if a package is missing."""
    missing = [name for name in ("torch", *NEEDED) if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"benchmarks/gpu.py: there is no {' and no '.join(missing)} here: fetch it with "
            "benchmarks/gpu_wheels.sh, and name its folder in PYTHONPATH",
            file=sys.stderr,
        )
        sys.exit(2)


# Without an installed thinwire, this process and those that it starts find it here.
sys.path.insert(1, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
# The search for GPUs does not start CUDA then, with which this process could not fork.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
_require_packages()

import record  # noqa: E402
import torch  # noqa: E402
from gpu_parts.part import Found, Part, Place, run  # noqa: E402

from thinwire.launch.run_processes import import_for_runs  # noqa: E402


def _imported(name: str, place: Place, found: Found) -> None:
    """Run a part, whose module only its own process imports."""
    import_module(f"gpu_parts.{name}").part(place, found)


PARTS: dict[str, Part] = {name: partial(_imported, name) for name in NAMES}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where the workers compute")
    parser.add_argument("--parts", nargs="+", choices=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument(
        "--size", choices=("small", "full"), help="small: all parts end within seconds; default on a CPU"
    )
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of one part; default: 300")
    parser.add_argument("--within", type=float, default=900.0, help="seconds of all parts; default: 900")


def main(arguments: argparse.Namespace) -> int:
    """Run the parts, and report whether everything held."""
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("benchmarks/gpu.py: torch finds no GPU here: use --device cpu", file=sys.stderr)
        return 2
    device = torch.device("cuda", 0) if arguments.device == "cuda" else torch.device("cpu")
    place = Place(device, small=(arguments.size or ("small" if device.type == "cpu" else "full")) == "small")
    import_for_runs()  # once, and not in each fork; it does not use CUDA
    end = time.monotonic() + arguments.within
    lines = []
    for name in arguments.parts or PARTS:
        left = end - time.monotonic()
        if left <= 0:
            print(f"no time was left for {name} and what follows it: --parts runs them alone")
            break
        lines.append(run(name, PARTS[name], place, min(arguments.limit, left)))
        print(json.dumps(lines[-1]), flush=True)
    held = sum(line["held"] for line in lines)
    wanted = len(arguments.parts or PARTS)
    absent = sum("not_here" in line for line in lines)
    print(f"{held - absent} of {wanted} parts held" + (f", and {absent} cannot run here" if absent else ""))
    return int(held < wanted)


if __name__ == "__main__":
    sys.exit(record.run(main, options))
