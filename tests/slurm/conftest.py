"""A Slurm for the whole session.

pytest gives whole files to its workers. There is one cluster, so that all tests of Slurm stand in one file.
"""

import os
from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Slurm, why_not


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    if reason := why_not():
        if os.environ.get("THINWIRE_REQUIRE_SLURM"):
            pytest.fail(f"the tests of Slurm are required, and {reason}")
        pytest.skip(reason)
    # Room for several grids side by side.
    with Slurm(cpus=64, memory=200_000) as cluster:
        yield cluster
