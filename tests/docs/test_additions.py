"""A method, a model, a data set and a suite of one's own, added as the documentation says, break no test."""

import shutil

import pytest
import yaml

from tests.commands import python, succeeded
from tests.docs import pages
from thinwire.plugins import ROOT

COPIED = ("config", "datasets", "methods", "models", "pyproject.toml", "tests", "thinwire")
DATASET = '''"""Ten stripes, drawn with noise."""

import numpy as np

import thinwire
from thinwire.data.dataset import Raw


class Dataset(thinwire.Dataset):
    classes = 10
    shape = (1, 10, 10)
    licence = "CC0"
    source = "drawn here"

    def fetch(self, place, download):
        labels = np.arange(200) % 10
        images = np.random.RandomState(0).randint(0, 99, (200, 1, 10, 10), np.uint8)
        images[np.arange(200), 0, labels] += 100
        return Raw(images[:150], labels[:150], images[150:], labels[150:])
'''
SUITE = {
    "title": "Mine",
    "seed": 1,
    "repetitions": 2,
    "datasets": ["stripes"],
    "models": {"mine": {"use": "mobilenet"}},
    "methods": {"ssgd": None, "my_method": None},
    "workers": [2],
    "recipe": {"epochs": 1, "batch": 30, "batch_per": "run", "optimizer": {"lr": 0.1}},
}
# What goes over plug-ins or suites, as far as it is quick.
TESTS = (
    "tests/contract/test_contract.py::test_describes_itself",
    "tests/golden/test_trajectories.py::test_every_method_has_one",
    "tests/unit/test_models.py::test_every_model_has_a_width",
    "tests/unit/test_grid_subset.py::test_a_whole_suite_has_no_note",
    "tests/unit/test_suites.py::test_every_suite_is_valid_and_has_the_strong_baseline",
    "tests/unit/test_suites_exercise.py::test_every_method_is_exercised",
)


def example(page, words):
    """The Python block of a page that has these words."""
    blocks = pages.blocks((ROOT / page).read_text())
    (found,) = (text for language, text in blocks if language == "python" and words in text)
    return found


@pytest.fixture
def copy(tmp_path):
    """A copy of the project with a method, a model, a data set and a suite of one's own."""
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "methods/my_method.py").write_text(example("README.md", "class Method("))
    (tmp_path / "models/mobilenet.py").write_text(example("docs/contract.md", "class Model("))
    (tmp_path / "datasets/stripes.py").write_text(DATASET)
    (tmp_path / "config/mine.yaml").write_text(yaml.safe_dump(SUITE))
    return tmp_path


def test_the_tests_stay_green(copy):
    answer = succeeded(
        python("-m", "pytest", "-vv", "-n", "0", "-p", "no:cacheprovider", *TESTS, folder=copy)
    )
    assert "test_describes_itself[my_method] PASSED" in answer.stdout
    assert "[mine]" not in answer.stdout
