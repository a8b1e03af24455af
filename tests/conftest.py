"""What all tests share."""

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tests import part
from thinwire.config import suite
from thinwire.train.cell_task import deterministic

# Whoever has started the tests may ignore these (nohup, a job in the background), and the runs that the tests
# start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Whole files go to the next free worker in this order (xdist: loadfile): no slow one is left for the end.
SLOWEST_FIRST = (
    "tests/slurm/",
    "tests/launch/test_local_processes.py",
    "tests/workflow/",
    "tests/contract/test_on_processes.py",
    "tests/faults/",
    "tests/golden/",
    "tests/launch/",
    "tests/tracking/",
    "tests/contract/",
)
# Of the tests that `make test` leaves out, this variable asks for a part, such as `2 of 6`.
PART = "THINWIRE_PART"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(item.config.rootpath).as_posix()
        return next((i for i, slow in enumerate(SLOWEST_FIRST) if path.startswith(slow)), len(SLOWEST_FIRST))

    items.sort(key=place)
    if (wanted := part.asked_for(PART)) is None:
        return
    files = dict.fromkeys(item.path for item in items if item.get_closest_marker("slow"))
    own = set([*files][wanted.number - 1 :: wanted.of])
    asked = [item for item in items if item.path in own and item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=[*set(items) - set(asked)])
    items[:] = asked


def pytest_collection_finish() -> None:
    """Keep what all tests share out of the searches for garbage, some of which are asked for by libraries.

    The part is asked for of these tests only, and not of those that `thinwire check` runs in a test.
    """
    os.environ.pop(PART, None)
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be missing where `thinwire check` is installed
def pytest_xdist_auto_num_workers() -> int:
    """As many as there are cores: many tests start processes, which would have to wait for each other."""
    return len(os.sched_getaffinity(0))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--method-file", help="hold this one file to the contract, not methods/")


@pytest.fixture(autouse=True, scope="session")
def _same_bits_every_time() -> None:
    deterministic(torch.device("cpu"))


@pytest.fixture(autouse=True)
def _nan_in_new_memory(_same_bits_every_time: None) -> None:
    """Fill new tensors with NaN before each test, because a run in this process may have switched it off."""
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture
def write_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write a suite: the good one of `tests.bad_input.suites` with changes; and have it found."""
    # Not above, because `thinwire check` loads this file where tests/bad_input is not installed.
    from tests.bad_input.suites import changed

    monkeypatch.setattr(suite, "ROOT", tmp_path)
    (tmp_path / "config").mkdir()

    def write(changes: dict[str, Any], name: str = "bad") -> Path:
        path = tmp_path / "config" / f"{name}.yaml"
        path.write_text(yaml.safe_dump(changed(changes), sort_keys=False))
        return path

    return write


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with the digits, for the tests of one file."""
    from thinwire.cli import arguments, plugins_and_suites

    folder = tmp_path_factory.mktemp("results")
    plugins_and_suites.data_main(arguments.parser().parse_args(["data", "digits", "--results", str(folder)]))
    return folder
