"""benchmarks/all_reduce.py on two ranks of one machine, with the variables that srun would set."""

import os
import re
import subprocess
import sys

from thinwire.plugins import ROOT

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
    step = {"SLURM_PROCID": str(number), "SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": "localhost"}
    return subprocess.Popen(
        [sys.executable, "-c", SMALL],
        env={**os.environ, **step, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_first_rank_prints_a_line_for_each_size():
    ranks = [rank(number) for number in range(2)]
    first, second = [process.communicate(timeout=120)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    assert second == ""
    lines = [LINE.fullmatch(line) for line in first.splitlines()]
    assert [line[1] for line in lines] == ["1,024", "32,768"]
    for line in lines:
        # On two ranks, a ring sends as many bytes as there are. Both numbers have three decimals.
        size, milliseconds, rate = (float(number.replace(",", "")) for number in line.groups())
        assert abs(rate - size / milliseconds / 1e6) < 0.0006 + 0.0006 * rate / milliseconds
