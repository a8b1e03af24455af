"""The README and the documentation stay short."""

import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks import study_results
from tests.docs import pages
from thinwire.plugins import ROOT

# Words of all pages. It may fall, and not rise.
LIMIT = 30_000
README = (ROOT / "README.md").read_text()


def test_it_has_at_most_1200_words():
    assert len(README.split()) <= 1200


def test_all_pages_together_are_short():
    """What belongs to no page of the site: results, what tests expect, licences."""
    others = ("datasets/", "results/", "tests/")
    words = {pages.name(path): len(path.read_text().split()) for path in pages.pages()}
    own = {name: count for name, count in words.items() if not name.startswith(others)}
    assert sum(own.values()) <= LIMIT, sorted(own.items(), key=lambda item: -item[1])[:5]


def test_the_environment_takes_the_disk_that_it_says():
    if sys.prefix != str(ROOT / ".venv") or "cu" in version("torch"):
        pytest.skip("this is not the environment of `make setup` with PyTorch's CPU build")
    said = float(re.search(r"environment takes ([\d.]+) GB", README.replace("\n", " "))[1])
    files = (path.lstat() for path in Path(sys.prefix).rglob("*"))
    assert said / 1.3 < sum(file.st_size for file in files) / 1e9 < said * 1.3


def test_the_figures_of_the_study_are_those_of_the_committed_results(tmp_path):
    study_results.draw(tmp_path)
    study = (ROOT / "docs/study.md").read_text()
    for picture, page, folder in (
        (study_results.AGAINST_BYTES, README, "docs/"),
        (study_results.BANDWIDTH, README, "docs/"),
        (study_results.PAIRED_DIFFERENCES, study, ""),
    ):
        assert f"]({folder}{picture})" in page
        assert (tmp_path / picture).read_bytes() == (ROOT / "docs" / picture).read_bytes()
