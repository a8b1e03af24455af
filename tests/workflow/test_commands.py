"""The commands that a person types by hand."""

import json
import re
from argparse import Namespace
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from types import SimpleNamespace

import pytest

from tests import processes
from tests.commands import python, succeeded, thinwire
from tests.contract.test_on_processes import EVERY_CHECK
from tests.workflow.conftest import TINY
from tests.workflow.test_pipeline import TEN_LINES
from thinwire import __version__, run
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.cli.arguments import parser
from thinwire.cli.check import SUBJECTS, _Listener, check_main
from thinwire.cli.plugins_and_suites import data_main, show_main
from thinwire.plugins import ROOT


@pytest.fixture
def ten_lines(tmp_path):
    assert len(TEN_LINES.splitlines()) <= 10
    path = tmp_path / "third.py"
    path.write_text(TEN_LINES)
    return path


def _check_here(words):
    """The exit code of `thinwire check`, and what it prints, in this process, which it changes."""
    said, errors = StringIO(), StringIO()
    with redirect_stdout(said), redirect_stderr(errors):
        code = check_main(parser().parse_args(["check", *words]))
    return code, said.getvalue(), errors.getvalue()


def check(*words):
    """The exit code of `thinwire check`, and what it prints, in a process that has imported all before."""
    code, said, errors = processes.apart(_check_here, [str(word) for word in words])
    assert code in (0, 1), errors
    return code, said


@pytest.mark.slow
def test_check_passes_a_method_of_ten_lines(ten_lines):
    answer = succeeded(thinwire("check", ten_lines))
    verdict = f"{ten_lines}: keeps the contract in one process; --processes checks it in several"
    assert answer.stdout.splitlines()[-1] == verdict


def test_check_says_how_accurate_a_method_of_ten_lines_is(ten_lines):
    code, said = check(ten_lines, "-k", "learns")
    assert code == 0
    learns = r"^learns to \d\d\.\d % accuracy on digits in 375 steps on 4 workers, with its defaults; "
    assert re.search(learns, said, re.MULTILINE)
    assert said.splitlines()[-1] == f"{ten_lines}: keeps what was checked of the contract (learns)"


def test_check_performs_one_check_in_one_process_and_twice_in_several(ten_lines):
    """In several, once on each path of calls: that of CPUs and that of GPUs."""
    code, said = check(ten_lines, "--processes", "-k", "every_message_in_flight")
    assert code == 0, said
    assert "3 passed" in said
    assert "keeps what was checked of the contract (every_message_in_flight)" in said


def test_check_fails_a_method_that_breaks_the_contract(ten_lines):
    ten_lines.write_text(TEN_LINES.replace("import thinwire", "import socket\n\nimport thinwire", 1))
    code, said = check(ten_lines, "-k", "communicates")
    assert code == 1
    assert "channels are the only road" in said
    assert said.splitlines()[-1] == f"{ten_lines}: breaks the contract, see above"


def test_check_says_as_json_what_fails_and_on_which_line(ten_lines):
    ten_lines.write_text(TEN_LINES.replace("last = ", "raise ValueError('no')  # ", 1))
    code, said = check(ten_lines, "--json", "-k", "same_bits")
    found = json.loads(said)
    assert code == 1
    verdicts = {name: found[name] for name in ("method", "keeps", "equality", "determinism")}
    assert verdicts == {"method": str(ten_lines), "keeps": False, "equality": None, "determinism": False}
    assert len(found["checks"]) == 4
    for one in found["checks"]:
        assert (one["outcome"], one["line"], one["message"]) == ("failed", f"{ten_lines}:8", "ValueError: no")


@pytest.mark.parametrize("edited", [pytest.param(False, marks=pytest.mark.slow), True])
def test_check_takes_the_baseline_itself_and_an_edited_copy_of_it(tmp_path, edited):
    """It is compared with the module in methods/, which has its name."""
    path = ROOT / "methods" / "ssgd.py"
    if edited:
        path = tmp_path / "ssgd.py"
        path.write_text((ROOT / "methods" / "ssgd.py").read_text() + "# edited\n")
    code, said = check(path, "-k", "equals_ssgd")
    assert code == 0, said
    assert "keeps what was checked of the contract (equals_ssgd)" in said


def test_an_unknown_check_is_refused_with_the_nearest(ten_lines):
    with pytest.raises(UserError, match=r"^-k lerns: no check has this name; the nearest is learns$"):
        check_main(parser().parse_args(["check", str(ten_lines), "-k", "lerns"]))


def test_the_line_is_that_of_the_method_also_if_another_process_has_raised(tmp_path):
    class Failure:
        reprtraceback = SimpleNamespace(reprentries=[])

        def __str__(self):
            lines = (f'File "{place}", line {number}' for number, place in enumerate(places))
            return "\n".join(lines)

    own, check, torchs = tmp_path / "mine.py", ROOT / "tests/contract/test_gpus.py", tmp_path / "torch.py"
    listener = _Listener(own)
    places = [check, own, torchs]
    assert listener._line(Failure()) == f"{own}:1"
    places = [torchs, check, torchs]
    assert listener._line(Failure()) == "tests/contract/test_gpus.py:1"


def test_the_subjects_of_the_json_name_checks():
    checks = [name.removeprefix("test_") for name in EVERY_CHECK]
    for part in (part for parts in SUBJECTS.values() for part in parts):
        assert any(part in check for check in checks), part


def test_show_explains_a_method(capsys):
    def said(name):
        show_main(Namespace(method=name))
        return capsys.readouterr().out

    of_local_sgd = said("local_sgd")
    for part in ("arXiv 1805.09767", "w_i <- 1/W sum_j w_j", "int, ge=1", "16", "steps between two"):
        assert part in of_local_sgd
    assert "is SSGD with {'period': 1, 'linear': True, 'nodes': 2}" in of_local_sgd
    assert re.search(r"momentum stays on its worker +ours +public codes differ", of_local_sgd)
    assert "is an ablation, and no baseline, with {'overlap': False}" in said("ssgd")


def test_the_version_is_printed():
    assert thinwire("--version").stdout == f"thinwire {__version__}\n"


# ---- Plug-ins and suites in a folder of one's own.


@pytest.fixture
def own(tmp_path):
    """A folder with a method and a suite, beside what the project has."""
    suite = TINY.replace("METHODS", "{mine: }").replace("WORKERS", "[2]").replace("EPOCHS", "1")
    for path, text in (("methods/mine.py", TEN_LINES), ("config/tiny.yaml", suite + "baseline: mine\n")):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    return tmp_path


def test_plug_ins_of_ones_own_folder_are_trained_from_python(own, monkeypatch):
    monkeypatch.delenv(folders.VARIABLE, raising=False)
    monkeypatch.chdir(own)
    needed = f"there is no data set in {own}/results/data/digits: prepare it with `thinwire data digits`"
    with pytest.raises(UserError, match=f"^{re.escape(needed)}$"):
        run("tiny", "digits/cnn/mine/w2/seed0")
    assert data_main(parser().parse_args(["data", "digits"])) == 0
    made = run("tiny", "digits/cnn/mine/w2/seed0")
    assert (made.status, made.result.steps) == ("done", 19)


def test_ones_own_folder_is_named_by_an_option_or_a_variable(own):
    named = succeeded(thinwire("--plugins", own, "cells", "tiny"))
    assert named.stdout.startswith("digits/cnn/mine/w2/seed0  missing\n")
    answer = python("-m", "thinwire", "cells", "tiny", THINWIRE_PLUGINS=str(own))
    assert answer.stdout == named.stdout
    answer = thinwire("--plugins", own / "nowhere", "list")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(
        f"thinwire: there is no folder {own}/nowhere: --plugins and THINWIRE_PLUGINS"
    )
