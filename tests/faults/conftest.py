"""The cases that are tried, and the process that tries them.

`make test-all` tries a diagonal through the matrix. With THINWIRE_FAULTS="2 of 5" it is a part of the whole.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from queue import SimpleQueue
from typing import Any

import pytest

from tests import part
from tests.faults import matrix, sandbox, suites
from tests.faults.matrix import Case
from tests.faults.room import Call
from tests.workflow.conftest import Project
from thinwire.plugins import ROOT

PART = "THINWIRE_FAULTS"
_AT_A_TIME = 2


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


class Server:
    """A process that tries one case at a time."""

    def __init__(self, project: Project) -> None:
        environment = project.environment()
        environment["PYTHONPATH"] += f":{ROOT}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            cwd=project.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the server has died"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class Trials:
    """The outcomes of the cases. Cases known beforehand are tried two at a time, because most only wait."""

    def __init__(self, project: Project, beforehand: Sequence[Case] = ()) -> None:
        self._servers = [Server(project) for _ in range(_AT_A_TIME if beforehand else 1)]
        self._idle: SimpleQueue[Server] = SimpleQueue()
        for server in self._servers:
            self._idle.put(server)
        self._pool = ThreadPoolExecutor(len(self._servers))
        self._asked: dict[str, Future[Any]] = {}
        for case in beforehand:
            self._undisturbed(case)
            self._tried(case)

    def try_case(self, case: Case) -> list[Call]:
        """The outcome of each call of `thinwire`: the one that the fault has hit, and those after it."""
        return [Call(**call) for call in self._tried(case).result()]

    def undisturbed(self, case: Case) -> Call:
        """The outcome of the same cell without a fault."""
        return Call(**self._undisturbed(case).result())

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for server in self._servers:
            server.close()

    def _tried(self, case: Case) -> Future[Any]:
        return self._ask({"case": asdict(case)})

    def _undisturbed(self, case: Case) -> Future[Any]:
        start = matrix.ALONE if case.start == matrix.ALONE else matrix.NODES
        return self._ask({"undisturbed": [case.suite, case.cell, start]})

    def _ask(self, what: Any) -> Future[Any]:
        """The future answer; no question is asked twice."""
        key = json.dumps(what)
        if key not in self._asked:
            self._asked[key] = self._pool.submit(self._ask_a_server, what)
        return self._asked[key]

    def _ask_a_server(self, what: Any) -> Any:
        server = self._idle.get()
        try:
            return server.ask(what)
        finally:
            self._idle.put(server)


@pytest.fixture(scope="session")
def trials(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    project = Project(tmp_path_factory.mktemp("project"))
    suites.write(project)
    # If pytest's workers share a part of the matrix, none knows beforehand which cases it will have.
    beforehand = [] if os.environ.get(PART) else _cases(request.session.items)
    made = Trials(project, beforehand)
    yield made
    made.close()


def _cases(items: Sequence[pytest.Item]) -> list[Case]:
    """The cases that will be tried in this process."""
    found = [item.callspec.params.get("case") for item in items if hasattr(item, "callspec")]
    return [
        case for case in found if isinstance(case, Case) and not (case.needs_mounts and sandbox.why_not())
    ]
