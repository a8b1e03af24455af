"""benchmarks/gpu.py without a GPU, on what a machine with torch has and six packages that are carried."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests import waiting
from tests.commands import python
from thinwire.codecs import select
from thinwire.plugins import ROOT

BENCHMARK, WHEELS = ROOT / "benchmarks/gpu.py", ROOT / "benchmarks/gpu_wheels.sh"
# What a machine has that has torch and the packages that the script for wheels names, with what they need.
THERE = (
    *("torch", "torchgen", "functorch", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock"),
    *("fsspec", "numpy", "numpy.libs", "torchvision", "torchvision.libs", "PIL", "pillow.libs", "yaml"),
    *("_yaml", "pyarrow", "rich", "markdown_it", "mdurl", "pygments", "safetensors"),
)
CARRIED = (
    *("pydantic", "pydantic_core", "annotated_types", "typing_inspection", "greenlet"),
    "typing_extensions.py",
)


def bare(folder, packages, *arguments):
    """Run the benchmark from another folder, with a Python that can import these packages alone."""
    modules = folder / "packages"
    modules.mkdir()
    installed = Path(torch.__file__).parent.parent
    for name in packages:
        if (installed / name).exists():
            (modules / name).symlink_to(installed / name)
    # As envs/setup.sh does it for a CPU build of torch.
    (modules / "sitecustomize.py").symlink_to(ROOT / "envs/declare_torchvision_operators.py")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        # The Python beneath the environment: processes that it starts do not see the environment either.
        [sys._base_executable, BENCHMARK, "--device", "cpu", *map(str, arguments)],
        env={**kept, "PYTHONPATH": str(modules), "PYTHONNOUSERSITE": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * waiting.SECONDS,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What all parts print and write on a bare machine: the folder, the lines, and the lines of the parts."""
    folder = tmp_path_factory.mktemp("bare")
    options = f"--record --out {folder} --limit 400 --within 500"
    answer = bare(folder, THERE + CARRIED, *options.split())
    assert answer.returncode == 0, answer.stdout + answer.stderr
    lines = answer.stdout.splitlines()
    return folder, lines, {line["part"]: line for line in map(json.loads, lines[:-1])}


@pytest.mark.slow
def test_all_parts_hold_on_a_bare_machine_and_the_record_goes_where_it_is_wanted(run):
    folder, lines, parts = run
    assert lines[-1] == "14 of 15 parts held, and 1 cannot run here"
    assert [name for name, line in parts.items() if "not_here" in line] == ["memory_of_workers"]
    (recorded,) = folder.glob("*/gpu.txt")
    words = recorded.read_text()
    assert "--out" not in words
    assert "".join(f"{line}\n" for line in lines) in words


@pytest.mark.slow
def test_what_each_part_reports(run):
    figures = {name: line["figures"] for name, line in run[2].items()}
    assert figures["device_group"]["verbs"] == ["broadcast", "gather", "mean"]
    for name in ("daso", "dgc"):
        assert figures["device_group"][name]["calls"] > 15, "at least one in each step"
    trained = set(figures["operations"])
    assert len(trained) == 4
    assert set(figures["equal_bits"]) == set(figures["waits_of_methods"]) == trained
    # Drawn numbers and counts are computed without waiting; only run lengths may need a number.
    assert set(figures["waits_of_methods"]["ps_sgd"]) == {"operations"}
    assert figures["engine_ratio"]["cnn"]["blocks"] == 2
    for batch, of_a_batch in figures["augmentation"].items():
        assert of_a_batch["operations"] > 10, batch
        assert of_a_batch["ms"] > 0, batch
    codecs = {name: values for name, values in figures["codec_passes"].items() if "copy" not in name}
    modules = {path.stem for path in (ROOT / "thinwire/codecs").glob("[a-z]*.py")}
    # Bits and tables are parts of the others, and lossy joins rows.
    assert {name.partition(".")[0] for name in codecs} == modules - {"bits", "tables", "lossy"}
    assert {f"select.{name}" for name in select.SELECT} <= set(codecs)
    for name, values in codecs.items():
        assert values["operations_a_tensor"] >= 1, name
    assert figures["resumed_run"]["on_this_device"]["resumed"] == 1
    assert figures["resumed_run"]["on_this_device"]["evaluations"] == 3
    assert "can't allocate memory" in figures["full_memory"]["sentence"]
    assert figures["ranks_on_one_device"]["nccl"].startswith("refused: ")
    assert figures["replicas"]["series"]["of_series"] == 1
    steps = figures["steps_of_methods"]["resnet18"]
    assert steps["ps_sgd"]["calls"] == 62, "one for each tensor"
    for name, each in steps.items():
        beside = sum(seconds for kind, seconds in each.items() if kind not in ("step", "calls"))
        assert each["forward"] < beside, name


@pytest.mark.slow
def test_all_networks_have_rates_in_all_settings(run):
    rates = dict(run[2]["compute_rates"]["figures"])
    assert min(rates.pop("memory and launch").values()) > 0
    settings = {
        f"{precision}{last}" for precision in ("bf16", "tf32", "fp32") for last in ("", " channels_last")
    }
    assert {name.partition(",")[0] for name in rates} == {"resnet18", "resnet50", "vgg16", "gpt"}
    for name, reached in rates.items():
        assert set(reached) == ({"bf16", "tf32", "fp32"} if name.startswith("gpt") else settings), name
        assert min(reached.values()) > 0, name


def test_a_missing_package_is_named_with_the_command_that_fetches_it(tmp_path):
    answer = bare(tmp_path, (*THERE, *(name for name in CARRIED if name != "greenlet")))
    assert answer.returncode == 2
    assert answer.stderr == (
        "benchmarks/gpu.py: there is no greenlet here: fetch it with benchmarks/gpu_wheels.sh, and name its "
        "folder in PYTHONPATH\n"
    )


# The parts of the benchmark are replaced by parts that do not work, and by one with a GPU's numbers of steps.
OWN_PARTS = """
import os, signal, sys, time
sys.path.insert(0, "benchmarks")
import gpu
from gpu_parts import engine_ratio, part

def raises(place, found):
    raise RuntimeError("no kernel image\\nand a second line")

def not_here(place, found):
    raise part.NotHere("no such counter")

def does_not_hold(place, found):
    found.figures["ratio"] = 1.23456
    found.broken.append("too slow")

def dies(place, found):
    os.kill(os.getpid(), signal.SIGKILL)

def takes_long(place, found):
    found.figures["before"] = 1
    time.sleep(60)

def hangs(place, found):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(60)

def steps_of_a_gpu(place, found):
    engine_ratio.part(part.Place(place.device, small=False), found)

part._GRACE_SECONDS = 0.2
engine_ratio.FULL = {"cnn": engine_ratio.FULL["cnn"]._replace(images=64, batch=8)}
limits = {"takes_long": 0.2, "hangs": 0.2}
run = gpu.run
gpu.run = lambda name, part, place, seconds: run(name, part, place, limits.get(name, seconds))
gpu.PARTS = {
    each.__name__: each
    for each in (raises, not_here, does_not_hold, dies, takes_long, hangs, steps_of_a_gpu)
}
gpu.NAMES = tuple(gpu.PARTS)
sys.argv = ["benchmarks/gpu.py", "--device", "cpu"]
sys.exit(gpu.record.run(gpu.main, gpu.options))
"""


@pytest.mark.slow
def test_a_part_that_fails_dies_or_hangs_does_not_stop_the_others():
    answer = python("-c", OWN_PARTS)
    *lines, last = answer.stdout.splitlines()
    parts = {line["part"]: line for line in map(json.loads, lines)}
    assert parts["raises"]["broken"] == ["RuntimeError: no kernel image"]
    assert (parts["not_here"]["held"], parts["not_here"]["not_here"]) == (True, "no such counter")
    assert parts["does_not_hold"]["broken"] == ["too slow"]
    assert parts["does_not_hold"]["figures"] == {"ratio": 1.235}
    assert parts["dies"]["broken"] == ["SIGKILL ended it"]
    assert parts["takes_long"]["broken"] == ["it took longer than 0.2 s; its figures are those until then"]
    assert parts["takes_long"]["figures"] == {"before": 1}
    assert parts["hangs"]["broken"] == ["it hung, and was ended"]
    assert parts["steps_of_a_gpu"]["held"], parts["steps_of_a_gpu"]
    assert parts["steps_of_a_gpu"]["figures"]["cnn"]["blocks"] == 30
    assert last == "1 of 7 parts held, and 1 cannot run here"
    assert answer.returncode == 1


@pytest.mark.slow
def test_without_a_gpu_it_says_so():
    answer = python("benchmarks/gpu.py")
    assert answer.returncode == 2
    assert answer.stderr == "benchmarks/gpu.py: torch finds no GPU here: use --device cpu\n"


# Stands for Python: it keeps what pip was asked for.
PIP = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        --dest) folder=$2 ;;
        --requirement) cp "$2" "$KEPT" ;;
    esac
    shift
done
touch "$folder/one.whl"
"""


def test_wheels_have_the_versions_and_hashes_of_the_lock_from_any_folder(tmp_path):
    pip = tmp_path / "pip.sh"
    pip.write_text(PIP)
    pip.chmod(0o755)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "older.whl").touch()
    kept = tmp_path / "kept.txt"
    variables = {**os.environ, "PYTHON": str(pip), "KEPT": str(kept)}
    answer = subprocess.run([WHEELS, "wheels"], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (0, "one.whl\n"), answer.stderr
    wanted, lock = kept.read_text(), (ROOT / "envs/requirements.lock").read_text()
    assert wanted.count("==") == len(CARRIED)
    for entry in re.split(r"\n(?=\S)", wanted.rstrip("\n")):
        assert entry in lock
        assert "--hash=sha256:" in entry
    answer = subprocess.run(
        [WHEELS, "wheels", "pydantic", "nothing"], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert answer.returncode == 2
    assert answer.stderr == (
        "gpu_wheels.sh: envs/requirements.lock has no nothing: name a package as it stands there\n"
    )
