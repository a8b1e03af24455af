"""Benchmarks as commands: gpu.py without a GPU, and all_reduce.py on two ranks of one machine."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.commands import python, succeeded
from thinwire.config.clusters import Device
from thinwire.config.yaml_file import read
from thinwire.plugins import find

# Two parts of the benchmark's and two that do not work.
SOME_PARTS = """
import argparse, sys
sys.path.insert(0, "benchmarks")
import gpu
from gpu_parts.part import Found, NotHere

def raises(place):
    raise RuntimeError("no kernel image\\nand a second line")

def not_here(place):
    raise NotHere("no such counter")

gpu.PARTS = {
    "raises": raises,
    "not_here": not_here,
    "does_not_hold": lambda place: Found({"ratio": 1.23456}, ["too slow"]),
    "codec_passes": gpu.PARTS["codec_passes"],
}
sys.exit(gpu.main(argparse.Namespace(device="cpu", profile=None)))
"""


@pytest.mark.slow
def test_all_parts_hold_on_a_cpu_and_give_a_profile_that_the_simulator_reads(tmp_path):
    profile = tmp_path / "here.yaml"
    answer = succeeded(python("benchmarks/gpu.py", "--device", "cpu", "--profile", profile))
    *lines, last = answer.stdout.splitlines()
    made = {line["part"]: line for line in map(json.loads, lines)}
    assert len(made) == 9
    assert last == "9 of 9 parts held"
    for part in ("operations", "equal_bits", "waits_of_methods"):
        assert set(made[part]["figures"]) == set(find("method"))
    assert [part for part, line in made.items() if "not_here" in line] == ["memory_of_workers"]
    assert made["waits_of_methods"]["figures"]["ssgd"] == {}, "a dense method waits for nothing"
    device = read(profile, Device, "a compute profile", "docs/simulation.md")
    assert device.flops_per_second > 1e8


@pytest.mark.slow
def test_a_part_that_fails_does_not_stop_the_others():
    answer = python("-c", SOME_PARTS)
    *lines, last = answer.stdout.splitlines()
    raises, not_here, does_not_hold, codecs = map(json.loads, lines)
    assert raises["broken"] == ["RuntimeError: no kernel image"]
    assert (not_here["held"], not_here["not_here"]) == (True, "no such counter")
    assert (does_not_hold["broken"], does_not_hold["figures"]) == (["too slow"], {"ratio": 1.235})
    assert codecs["held"]
    assert last == "2 of 4 parts held"
    assert answer.returncode == 1


@pytest.mark.slow
def test_without_a_gpu_it_says_so():
    answer = python("benchmarks/gpu.py")
    assert answer.returncode == 2
    assert answer.stderr == "benchmarks/gpu.py: torch finds no GPU here: use --device cpu\n"


# The largest size of the benchmark would take a minute here.
SMALL = """
import sys
from benchmarks import all_reduce
all_reduce.SIZES = (1024, 32768)
sys.argv[1:] = ["gloo"]
all_reduce.main()
"""
LINE = re.compile(r" *([\d,]+) bytes: +([\d.]+) ms, +([\d.]+) GB/s")


def rank(number):
    """What this rank prints, with the variables that srun would set."""
    step = {"SLURM_PROCID": str(number), "SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": "localhost"}
    return succeeded(python("-c", SMALL, **step)).stdout


def test_the_first_rank_prints_a_line_for_each_size():
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(rank, range(2))
    assert second == ""
    lines = [LINE.fullmatch(line) for line in first.splitlines()]
    assert [line[1] for line in lines] == ["1,024", "32,768"]
    for line in lines:
        # On two ranks, a ring sends as many bytes as there are. Both numbers have three decimals.
        size, milliseconds, rate = (float(number.replace(",", "")) for number in line.groups())
        assert abs(rate - size / milliseconds / 1e6) < 0.0006 + 0.0006 * rate / milliseconds
