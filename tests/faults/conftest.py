"""The cases that are tried, and the process that tries them.

`make test-all` tries a diagonal through the matrix. With THINWIRE_FAULTS="2 of 5" it is a part of the whole.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from tests import part
from tests.faults import matrix, suites
from tests.faults.matrix import Case
from tests.faults.room import Call
from tests.workflow.conftest import Project
from thinwire.plugins import ROOT

PART = "THINWIRE_FAULTS"


def chosen() -> list[Case]:
    """The cases of this call of pytest."""
    wanted = part.asked_for(PART)
    return matrix.part(*wanted) if wanted else matrix.diagonal()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", [pytest.param(case, id=case.name) for case in chosen()])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    wanted = os.environ.get(PART)
    if wanted:
        tried, every = len(chosen()), len(matrix.cases())
        terminalreporter.write_line(f"faults: part {wanted}, {tried} of {every} cases")


class Trials:
    """A process that tries one case at a time, and the outcomes of cells without a fault."""

    def __init__(self, project: Project) -> None:
        environment = project.environment()
        environment["PYTHONPATH"] += f":{ROOT}"
        self._undisturbed: dict[tuple[str, str, str], Call] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            cwd=project.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def try_case(self, case: Case) -> list[Call]:
        """The outcome of each call of `thinwire`: the one that the fault has hit, and those after it."""
        return [Call(**call) for call in self._ask({"case": asdict(case)})]

    def undisturbed(self, case: Case) -> Call:
        """The outcome of the same cell without a fault."""
        start = matrix.ALONE if case.start == matrix.ALONE else matrix.NODES
        cell = (case.suite, case.cell, start)
        if cell not in self._undisturbed:
            self._undisturbed[cell] = Call(**self._ask({"undisturbed": cell}))
        return self._undisturbed[cell]

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, what: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the server has died"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    project = Project(tmp_path_factory.mktemp("project"))
    suites.write(project)
    made = Trials(project)
    yield made
    made.close()
