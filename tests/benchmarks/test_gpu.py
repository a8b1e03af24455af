"""benchmarks/gpu.py without a GPU: all parts run, and one that fails does not stop the others."""

import json

import pytest

from tests.commands import python
from thinwire.config.clusters import Device
from thinwire.config.yaml_file import read
from thinwire.plugins import find

pytestmark = pytest.mark.slow

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


def test_all_parts_hold_on_a_cpu_and_give_a_profile_that_the_simulator_reads(tmp_path):
    profile = tmp_path / "here.yaml"
    answer = python("benchmarks/gpu.py", "--device", "cpu", "--profile", profile)
    assert answer.returncode == 0, answer.stdout + answer.stderr
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


def test_without_a_gpu_it_says_so():
    answer = python("benchmarks/gpu.py")
    assert answer.returncode == 2
    assert answer.stderr == "benchmarks/gpu.py: torch finds no GPU here: use --device cpu\n"
