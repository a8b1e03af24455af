"""The committed results: they rebuild to the same bytes, they verify, and three of their cells run again."""

import shutil
import subprocess

import pytest

from tests.commands import succeeded, thinwire
from thinwire.base.folders import REFERENCE
from thinwire.plugins import ROOT

pytestmark = pytest.mark.slow

FOLDER = ROOT / REFERENCE
# Three methods whose runs take seconds.
CELLS = "methods=ssgd,local_sgd,top_k", "workers=4", "repetitions=1"


def committed():
    """All files of the committed results, by their paths below the folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "."], cwd=FOLDER, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split("\0") if name]


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory):
    """A copy of what was archived and collected, and all that follows from it."""
    folder = tmp_path_factory.mktemp("rebuilt") / "reference"
    for name in committed():
        if not name.startswith(("tables/", "figures/", "paper/")) or "/" not in name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(FOLDER / name, folder / name)
    for name in ("index.html", "paper.pdf", "claims.csv", "claims.md"):
        (folder / name).unlink()
    (folder / "tables").mkdir()
    shutil.copyfile(FOLDER / "tables/hsgd_ratio.csv", folder / "tables/hsgd_ratio.csv")
    succeeded(thinwire("rebuild", folder))
    return folder


def test_everything_that_is_committed_follows_from_the_archives_to_the_byte(rebuilt):
    names = committed()
    assert "paper.pdf" in names
    assert [name for name in names if (rebuilt / name).read_bytes() != (FOLDER / name).read_bytes()] == []


def test_the_paper_has_at_most_ten_pages_before_its_appendix():
    assert 1 <= (FOLDER / "paper.pdf").read_bytes().count(b"<</Type/PageLabel/S/D/") <= 10


def test_all_committed_records_are_sound_and_belong_to_the_tables(rebuilt):
    answer = thinwire("verify", rebuilt)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_three_cells_run_again_give_results_within_their_intervals(tmp_path):
    for arguments in (
        ("data", "digits"),
        ("train", "demo", "digits/cnn/w4/seed0", "--only", CELLS[0]),
        ("collect", "demo", "--only", *CELLS),
    ):
        answer = succeeded(thinwire(*arguments, "--results", tmp_path))
    answer = succeeded(thinwire("compare", FOLDER, "--results", tmp_path))
    assert answer.stdout.splitlines()[-1].startswith("6 comparisons: ")
