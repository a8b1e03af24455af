"""all_reduce.py as a command, on two ranks of one machine."""

import re
from concurrent.futures import ThreadPoolExecutor

from tests.commands import python, succeeded

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
