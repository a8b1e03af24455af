"""A Slurm for the whole session, and a copy of the project to be run on it.

pytest gives whole files to its workers. There is one cluster, so that all tests of Slurm stand in one file.
"""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Slurm, why_not
from tests.workflow.conftest import Project
from thinwire.plugins import ROOT


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    if reason := why_not():
        if os.environ.get("THINWIRE_REQUIRE_SLURM"):
            pytest.fail(f"the tests of Slurm are required, and {reason}")
        pytest.skip(reason)
    with Slurm() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def project(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The copy, with the profile of clusters."""
    copy = Project(tmp_path_factory.mktemp("project"))
    shutil.copytree(ROOT / "slurm", copy.folder / "slurm")
    return copy
