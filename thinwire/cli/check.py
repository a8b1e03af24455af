"""`thinwire check [FILE]`: performs the contract suite, tests/contract/, on methods."""

import ast
import sys
from argparse import Namespace
from pathlib import Path

from thinwire import plugins
from thinwire.errors import UserError
from thinwire.label import nearest
from thinwire.plugins import ROOT

_CONTRACT = ROOT / "tests" / "contract"
_IN_ONE_PROCESS = [_CONTRACT / "test_channels.py", _CONTRACT / "test_contract.py"]
_ON_PROCESSES = _CONTRACT / "test_on_processes.py"


def main(arguments: Namespace) -> int:
    """Check the file of one method, or all methods in `methods/`."""
    try:
        import pytest
    except ModuleNotFoundError:
        raise UserError("thinwire check needs pytest: make setup, or pip install pytest") from None
    path = None if arguments.file is None else _method_file(arguments.file)
    if not _CONTRACT.is_dir():
        raise UserError(f"{_CONTRACT} is missing: start thinwire check in a clone of the repository")
    suites = [*_IN_ONE_PROCESS, _ON_PROCESSES] if arguments.processes else _IN_ONE_PROCESS
    options = ["-p", "no:cacheprovider", "-p", "tests.contract.in_forks", "-rs", "--tb=short", "--maxfail=3"]
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
    sys.path.insert(0, str(ROOT))  # where the tests are
    code = pytest.main([*map(str, suites), "-c", str(ROOT / "pyproject.toml"), *options])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise UserError(f"{what} could not be checked: see above")
    keeps = "keeps the contract"
    if arguments.only is not None:
        keeps = f"keeps what was checked of the contract ({arguments.only})"
    elif not arguments.processes:
        keeps = "keeps the contract in one process; --processes checks it in several"
    print(f"{what}: {keeps if code == pytest.ExitCode.OK else 'breaks the contract, see above'}")
    return int(code != pytest.ExitCode.OK)


def _method_file(given: Path) -> Path:
    """Return the file of a method, of which the file, the folder or the name is given.

    Raises:
        UserError: there is none, or it cannot be imported; one sentence says why.
    """
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
