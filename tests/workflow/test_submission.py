"""From an empty folder to a submission in the project that somebody else has proved."""

import shutil

import pytest

from tests import commands
from thinwire.plugins import ROOT

TRACK = "tracks/tiny"
CELLS = [f"digits/cnn/mine/w2/seed{number}" for number in range(2)]
COMPETITION = """
simulate: {clusters: [wan_200m_50ms], accelerator: a100_fp32}
track: {cluster: wan_200m_50ms, target: 50, seeds: 2, sigma: 0.05, threshold: 3}
"""


@pytest.mark.slow
def test_a_method_goes_from_an_empty_folder_to_a_proved_row(project, tmp_path):
    for name in ("tests", "pyproject.toml"):  # the checks of the contract
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, project.folder / name)
    (project.folder / "config/tracks").mkdir(exist_ok=True)
    project.suite(TRACK, "{ssgd: }", epochs=1, more=COMPETITION)
    path = project.folder / f"config/{TRACK}.yaml"
    text = path.read_text().replace("batch: 64", "batch: 600")  # two steps
    path.write_text(text.replace("repetitions: 1", "repetitions: 2"))
    home = tmp_path / "home"
    home.mkdir()

    def thinwire(*words):
        answer = commands.python("-m", "thinwire", *words, folder=home, path=project.folder)
        return commands.succeeded(answer).stdout

    thinwire("new", "method", "mine")
    thinwire("data", "digits")
    for cell in CELLS:
        thinwire("run", TRACK, cell)
    assert f"thinwire score {home}/submissions/mine" in thinwire("submit", "mine", "--track", TRACK)
    # Somebody else takes it into the project, and has no method of this name.
    merged = shutil.copytree(home / "submissions/mine", project.folder / "submissions/mine")
    (home / "methods/mine.py").unlink()
    said = thinwire("reproduce", merged / "runs" / TRACK / CELLS[0])
    assert said.endswith(": identical to the bit\n")
    said = thinwire("score", merged, "--cells", "1", "--seed", "3")
    assert said.startswith("2 records verify; 1 drawn with --seed 3\n")
    assert f"mine is proved; {merged}/score.json has what was done" in said
