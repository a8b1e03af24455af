"""`thinwire check`: the checks of the contract, for people and, with `--json`, for programs."""

import ast
import json
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinwire import plugins
from thinwire.base.errors import UserError, nearest
from thinwire.plugins import ROOT

if TYPE_CHECKING:
    import pytest

_CONTRACT = ROOT / "tests" / "contract"
_IN_ONE_PROCESS = [_CONTRACT / f"test_{part}.py" for part in ("channels", "contract", "gpus")]
_ON_PROCESSES = _CONTRACT / "test_on_processes.py"
_PLACE = re.compile(r'File "(.+?)", line (\d+)')
# What a program asks for first, and parts of the names of its checks.
SUBJECTS = {
    "equality": ("equals_ssgd",),
    "bytes": (
        "every_byte_is_metered",
        "unmetered_metadata_does_not_depend_on_the_data",
        "a_mirrored_worker_sends_what_it_sends_among_all_workers",
        "every_message_in_flight_is_received",
        "some_worker_holds_what_is_shipped_at_the_end",
        "communicates_through_the_channels_only",
    ),
    "determinism": (
        "same_bits_every_time",
        "resumes_to_the_same_bits",
        "does_not_depend_on_the_order_of_the_workers",
        "draws_shared_choices_alike_on_all_workers",
    ),
}


def check_main(arguments: Namespace) -> int:
    """Check the file of one method, or all methods in `methods/`."""
    try:
        import pytest
    except ModuleNotFoundError:
        raise UserError("thinwire check needs pytest: make setup, or pip install pytest") from None
    begin = time.monotonic()
    path = None if arguments.file is None else _method_file(arguments.file)
    suites = [*_IN_ONE_PROCESS, _ON_PROCESSES] if arguments.processes else _IN_ONE_PROCESS
    options = ["-p", "no:cacheprovider", "-p", "tests.contract.in_forks", "-rs", "--tb=short"]
    if not arguments.json:  # its verdicts need all checks
        options.append("--maxfail=3")
    # What forks print through a file that they inherit would be mixed up.
    options.append("--capture=sys")
    if arguments.only is not None:
        _require_check(arguments.only, suites)
        options += ["-k", arguments.only]
    if path is None:
        for plugin in plugins.find("method").values():
            plugin.load()  # if one cannot be imported, this says why in one sentence
        what = "methods/"
    else:
        options.append(f"--method-file={path}")
        what = plugins.show(path)
    # Processes, too, have to find these tests and not those of the folder in which the command was given.
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    options += ["-c", str(ROOT / "pyproject.toml")]
    listener = _Listener(ROOT / "methods" if path is None else path)
    with redirect_stdout(sys.stderr if arguments.json else sys.stdout):
        code = pytest.main([*map(str, suites), *options], plugins=[listener])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise UserError(f"{what} could not be checked: see above")
    keeps = "keeps the contract"
    if arguments.only is not None:
        keeps = f"keeps what was checked of the contract ({arguments.only})"
    elif not arguments.processes:
        keeps = "keeps the contract in one process; --processes checks it in several"
    if arguments.json:
        verdict = {"method": what, "keeps": code == pytest.ExitCode.OK, **listener.subjects()}
        seconds = round(time.monotonic() - begin, 1)
        print(json.dumps({**verdict, "seconds": seconds, "checks": listener.checks}, indent=2))
    else:
        print(f"{what}: {keeps if code == pytest.ExitCode.OK else 'breaks the contract, see above'}")
    return int(code != pytest.ExitCode.OK)


class _Listener:
    """A plug-in of pytest that keeps the outcome of each check of a method, or of the methods in a folder."""

    def __init__(self, method: Path) -> None:
        self._method = method.parent if method.name == "__init__.py" else method
        self.checks: list[dict[str, str | float | None]] = []

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        """Keep the outcome of a check; of its preparation only if it failed or was skipped."""
        if report.when != "call" and report.outcome == "passed":
            return
        self.checks.append(
            {
                "check": report.nodeid.rpartition("::")[2].removeprefix("test_"),
                "outcome": report.outcome,
                "seconds": round(report.duration, 2),
                "line": self._line(report.longrepr) if report.failed else None,
                "message": None if report.passed else _message(report.longrepr),
            }
        )

    def subjects(self) -> dict[str, bool | None]:
        """Do all checks of each subject pass? None: none was performed."""
        return {subject: self._pass(parts) for subject, parts in SUBJECTS.items()}

    def _pass(self, parts: Sequence[str]) -> bool | None:
        own = [check for check in self.checks if any(part in str(check["check"]) for part in parts)]
        outcomes = [check["outcome"] for check in own if check["outcome"] != "skipped"]
        return all(outcome == "passed" for outcome in outcomes) if outcomes else None

    def _line(self, said: Any) -> str | None:
        """Where a check failed: in the method if it was at work, or else in the check."""
        found = [entry.reprfileloc for entry in said.reprtraceback.reprentries if entry.reprfileloc]
        places = [(Path(place.path).resolve(), place.lineno) for place in found]
        # Of what another process has raised, there is the text only.
        places += [(Path(path).resolve(), int(line)) for path, line in _PLACE.findall(str(said))]
        own = [place for place in places if place[0].is_relative_to(self._method)]
        checks = [place for place in places if place[0].is_relative_to(_CONTRACT)]
        last = reversed(own or checks or places)
        return next((f"{plugins.show(path)}:{line}" for path, line in last), None)


def _message(said: Any) -> str:
    """Why a check failed or was skipped, of what pytest has to say about it."""
    return str(said[2]) if isinstance(said, tuple) else str(said.reprcrash.message)


def _method_file(given: Path) -> Path:
    """The file of a method, of which the file, the folder or the name is given; a UserError says why not."""
    path = given / "__init__.py" if (given / "__init__.py").is_file() else given
    if not path.is_file():
        methods = plugins.find("method")
        if str(path) not in methods:
            raise UserError(f"{path}: there is no such file, and no method of this name")
        path = methods[str(path)].path
    path = path.resolve()
    plugins.load_file("method", path, "thinwire_checked")
    return path


def _require_check(name: str, suites: list[Path]) -> None:
    """Require that a check has this name, or a name that contains it."""
    known = [
        node.name.removeprefix("test_")
        for suite in suites
        for node in ast.parse(suite.read_bytes()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    if not any(name in each for each in known):
        raise UserError(f"-k {name}: no check has this name; the nearest is {nearest(name, known)}")
