"""Performs the checks in forks of this process, one for each core. A plug-in of pytest, for `thinwire check`.

A fork need not import anything. Checks that share a launch of processes stay in one fork.
"""

import os
import signal
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import pytest
import torch._dynamo  # noqa: F401  # optimizers import it at their first step; each fork would
from _pytest.runner import runtestprotocol

# The checks, in groups that stay together; the forks inherit them.
_GROUPS: list[list[pytest.Item]] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Perform all checks."""
    if session.testsfailed:
        return None  # something cannot be imported, which pytest itself says
    _GROUPS[:] = _grouped(session.items)
    cores = len(os.sched_getaffinity(0))
    longest_first = range(len(_GROUPS))[::-1]  # the check that trains for longest is the last in its file
    with (
        tempfile.TemporaryDirectory(prefix="thinwire-check-") as folder,
        ProcessPoolExecutor(cores, get_context("fork"), _begin, (folder,)) as forks,
    ):
        try:
            for group in as_completed([forks.submit(_perform, number) for number in longest_first]):
                for content in group.result():
                    report = session.config.hook.pytest_report_from_serializable(
                        config=session.config, data=content
                    )
                    session.config.hook.pytest_runtest_logreport(report=report)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
        except BrokenProcessPool:
            raise session.Failed("a process that performed checks was killed") from None
        finally:
            forks.shutdown(cancel_futures=True)
    return True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show what checks have noted."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "note":
                terminalreporter.write_line(text)


def _grouped(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """Group the checks on processes by their method, and leave all others alone."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        assert isinstance(item, pytest.Function)
        shared = "outcomes" in item.fixturenames
        groups.setdefault(item.callspec.params["subject"].name if shared else item.nodeid, []).append(item)
    return list(groups.values())


def _begin(folder: str) -> None:
    """Prepare a fork: it ends at a Ctrl-C, and leaves its files in a folder that this process removes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    tempfile.tempdir = folder


def _perform(number: int) -> list[dict[str, Any]]:
    """Perform the checks of a group, one after the other; gives pytest's reports as plain data."""
    group = _GROUPS[number]
    return [
        item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
        for item, following in zip(group, [*group[1:], None])
        for report in runtestprotocol(item, log=False, nextitem=following)
    ]
