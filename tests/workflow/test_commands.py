"""The commands that a person types by hand."""

import re
import shutil

import pytest

from tests.commands import python, succeeded, thinwire
from tests.workflow.conftest import TINY
from tests.workflow.test_pipeline import TEN_LINES
from thinwire import __version__
from thinwire.plugins import ROOT


@pytest.fixture
def ten_lines(tmp_path):
    assert len(TEN_LINES.splitlines()) <= 10
    path = tmp_path / "third.py"
    path.write_text(TEN_LINES)
    return path


def test_check_passes_a_method_of_ten_lines(ten_lines):
    answer = succeeded(thinwire("check", ten_lines))
    learns = r"^learns to \d\d\.\d % accuracy on digits in 375 steps on 4 workers, with its defaults; "
    assert re.search(learns, answer.stdout, re.MULTILINE)
    verdict = f"{ten_lines}: keeps the contract in one process; --processes checks it in several"
    assert answer.stdout.splitlines()[-1] == verdict


def test_check_performs_one_check_in_one_process_and_twice_in_several(ten_lines):
    """In several, once on each path of calls: that of CPUs and that of GPUs."""
    answer = succeeded(thinwire("check", ten_lines, "--processes", "-k", "every_message_in_flight"))
    assert "3 passed" in answer.stdout
    assert "keeps what was checked of the contract (every_message_in_flight)" in answer.stdout


def test_check_fails_a_method_that_breaks_the_contract(ten_lines):
    ten_lines.write_text(TEN_LINES.replace("import thinwire", "import socket\n\nimport thinwire", 1))
    answer = thinwire("check", ten_lines, "-k", "communicates")
    assert answer.returncode == 1
    assert "channels are the only road" in answer.stdout
    assert answer.stdout.splitlines()[-1] == f"{ten_lines}: breaks the contract, see above"


@pytest.mark.parametrize("edited", [pytest.param(False, marks=pytest.mark.slow), True])
def test_check_takes_the_baseline_itself_and_an_edited_copy_of_it(tmp_path, edited):
    """It is compared with the module in methods/, which has its name."""
    path = ROOT / "methods" / "ssgd.py"
    if edited:
        path = tmp_path / "ssgd.py"
        path.write_text((ROOT / "methods" / "ssgd.py").read_text() + "# edited\n")
    answer = succeeded(thinwire("check", path, "-k", "equals_ssgd"))
    assert "keeps what was checked of the contract (equals_ssgd)" in answer.stdout


def test_an_unknown_check_is_refused_with_the_nearest(ten_lines):
    answer = thinwire("check", ten_lines, "-k", "lerns")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "thinwire: -k lerns: no check has this name; the nearest is learns\n"


def test_show_explains_a_method():
    said = thinwire("show", "local_sgd").stdout
    for part in ("arXiv 1805.09767", "w_i <- 1/W sum_j w_j", "int, ge=1", "16", "steps between two"):
        assert part in said
    assert "is SSGD with {'period': 1, 'linear': True, 'nodes': 2}" in said
    assert re.search(r"momentum stays on its worker +ours +public codes differ", said)
    assert "is an ablation, and no baseline, with {'overlap': False}" in thinwire("show", "ssgd").stdout


def test_the_version_is_printed():
    assert thinwire("--version").stdout == f"thinwire {__version__}\n"


# ---- An engine that was installed without a clone of the repository.


@pytest.fixture
def started_in(tmp_path):
    """Start Python in a folder, with an engine that is elsewhere."""
    shutil.copytree(ROOT / "thinwire", tmp_path / "installed/thinwire")

    def start(folder, *arguments):
        return python(*arguments, folder=folder, path=tmp_path / "installed")

    return start


def test_without_plug_ins_one_sentence_says_where_to_start(started_in, tmp_path):
    answer = started_in(tmp_path, "-m", "thinwire", "list")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == (
        f"thinwire: {tmp_path} has no folder methods/: start thinwire in a clone of its repository, or in a "
        "folder of your own with methods/, models/, datasets/ and config/\n"
    )


RUN_FROM_PYTHON = """
import thinwire
try:
    thinwire.run_cell("tiny", "digits/cnn/mine/w2/seed0")
except thinwire.UserError as error:
    print(error)
import subprocess, sys
subprocess.run([sys.executable, "-m", "thinwire", "data", "digits"], check=True)
run = thinwire.run_cell("tiny", "digits/cnn/mine/w2/seed0")
print(run.status, run.result.steps)
"""


def test_plug_ins_of_ones_own_folder_are_trained_from_python(started_in, tmp_path):
    own = tmp_path / "own"
    for path in ("models/cnn.py", "datasets/digits.py", "datasets/digits.npz"):
        (own / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, own / path)
    suite = TINY.replace("METHODS", "{mine: }").replace("WORKERS", "[2]").replace("EPOCHS", "1")
    for path, text in (("methods/mine.py", TEN_LINES), ("config/tiny.yaml", suite + "baseline: mine\n")):
        (own / path).parent.mkdir()
        (own / path).write_text(text)
    answer = succeeded(started_in(own, "-c", RUN_FROM_PYTHON))
    needed = f"there is no data set in {own}/results/data/digits: prepare it with `thinwire data digits`"
    assert {needed, "done 19"} <= {*answer.stdout.splitlines()}
    answer = started_in(own, "-m", "thinwire", "check")
    assert answer.returncode == 2
    assert answer.stderr.endswith("is missing: start thinwire check in a clone of the repository\n")
