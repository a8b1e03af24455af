"""Submissions: what is packed, what is refused in one sentence, and how far their files prove them."""

import json
import shutil
from argparse import Namespace
from dataclasses import replace

import pytest
import yaml

from tests import sound
from thinwire.base import digests, folders
from thinwire.base.errors import UserError
from thinwire.cli import submissions as command
from thinwire.config.yaml_file import Module
from thinwire.plugins import ROOT
from thinwire.records.record import RUN
from thinwire.submissions import submission
from thinwire.submissions.reproduction import Reproduction, Verdict, facts
from thinwire.train import record_check
from thinwire.train.result_files import record_folder

TRACK = "tracks/tiny"
KEPT = {"equals_ssgd_with_the_options_it_declares[mine]": "passed", "learns[mine]": "passed"}
BROKEN = {**KEPT, "every_byte_is_metered[mine]": "failed"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of one's own with a method and its records in a track of three cells."""
    monkeypatch.setenv(folders.VARIABLE, str(tmp_path))
    (tmp_path / "methods").mkdir()
    text = (ROOT / "methods/_new_method.py").read_text().replace("NAME", "mine")
    (tmp_path / "methods/mine.py").write_text(text)
    first = sound.cells("demo")[0]
    own = [
        replace(first, suite=TRACK, method=Module("mine", "mine", {}), preparer="mine", repetition=number)
        for number in range(3)
    ]
    there = [*(replace(cell, method=first.method, preparer="ssgd") for cell in own), *own]
    for module in (submission, record_check, command):
        monkeypatch.setattr(module, "cells", lambda suite: there)
    monkeypatch.setattr(submission, "suite_names", lambda: ["demo", TRACK])
    for cell in own:
        known = {"thinwire": "0.1.0", "started": "then", "torch_build": "2", "hardware": {"processor": "P"}}
        sound.publish(tmp_path / "results", cell, provenance={"sources_sha256": sound.sources(cell), **known})
    return tmp_path


def packed(home, contradicts=None, outcomes=KEPT, name="mine", track=TRACK):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_contract", lambda path: outcomes)
        return submission.read(command.submit(name, track, home / "results", contradicts))


def test_a_submission_has_the_method_its_records_and_what_is_known_of_them(home):
    made = packed(home)
    assert made.folder == home / "submissions/mine"
    files = {path.relative_to(made.folder).as_posix() for path in made.folder.rglob("*") if path.is_file()}
    records = {f"runs/{TRACK}/{cell.path}/{RUN}" for cell in submission.cells_of(TRACK, "mine")}
    assert {"README.md", "submission.yaml", "methods/mine.py"} | records <= files
    about = yaml.safe_load((made.folder / "submission.yaml").read_text())
    date = str(about.pop("date"))
    assert about == {
        "track": TRACK,
        "rules": 3,
        "thinwire": "0.1.0, revision None",
        "torch": "2",
        "processor": "P",
    }
    assert len(date) == 10
    assert len(submission.verified_submission(made)) == 3
    assert tier_of(made) == "reported"
    assert [each.name for each in submission.every()] == ["mine"]
    assert submission.holding(made.folder / "runs" / TRACK) == made.folder


def test_a_sceptical_result_names_the_row_that_it_contradicts(home):
    made = packed(home, contradicts="ssgd")
    assert made.folder == home / "submissions/sceptical/mine"
    assert made.about.contradicts == "ssgd"
    assert [each.name for each in submission.every()] == ["mine"]


def tier_of(made):
    return submission.tier(made, submission.verified_submission(made))


def first_record(home):
    return record_folder(home / "results", submission.cells_of(TRACK, "mine")[0])


def under_other_rules(home):
    path = first_record(home) / RUN
    content = digests.read_json(path)
    content["cell"]["rules"] = 2
    digests.write_json(path, content)


def with_another_score(home):
    path = first_record(home) / RUN
    path.write_text(path.read_text().replace('"steps": 57', '"steps": 58'))


def edit_the_method(folder):
    with (folder / "methods/mine.py").open("a") as file:
        file.write("\n")


def failed(home):
    shutil.rmtree(first_record(home))
    cell = submission.cells_of(TRACK, "mine")[0]
    known = {"sources_sha256": sound.sources(cell)}
    sound.publish(home / "results", cell, provenance=known, status="failed", reason="why")


def taken(home):
    (home / "submissions/mine").mkdir(parents=True)
    about = {"track": TRACK, "rules": 3, "date": "d", "thinwire": "t", "torch": "2", "processor": "P"}
    (home / "submissions/mine/submission.yaml").write_text(yaml.safe_dump(about))


# What was changed, or is given; and the sentence.
REFUSED = [
    (lambda home: shutil.rmtree(first_record(home)), r"1 of 3 records of mine in tracks/tiny are missing: `"),
    (with_another_score, r"run\.json was changed after it was written"),
    (under_other_rules, r"under version 2 of the rules, and this code"),
    (edit_the_method, r"was made with another file of the method than there is now"),
    (failed, r"the run of digits/.*/seed0 is failed \(why\), which is no result"),
    (taken, r"there is a submission mine already, .*submissions/mine: take another name"),
    ({"outcomes": BROKEN}, r"mine breaks the contract \(every_byte_is_metered\[mine\]\): `thinwire check"),
    ({"track": "tracks/v9"}, r"there is no track 'tracks/v9': config/ has tracks/tiny$"),
    ({"track": "demo"}, r"there is no track 'demo'"),
    ({"name": "ssgd"}, r"ssgd is a method of the project"),
    ({"contradicts": "top_k"}, r"--contradicts top_k: tracks/tiny has no such row"),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSED)
def test_what_cannot_be_submitted_is_refused_and_nothing_is_written(home, change, sentence):
    given = change if isinstance(change, dict) else {}
    if not given:
        change(home)
    before = sorted((home / "submissions").rglob("*"))
    with pytest.raises(UserError, match=sentence) as refused:
        packed(home, **given)
    assert "\n" not in str(refused.value)
    assert sorted((home / "submissions").rglob("*")) == before


def test_a_seed_repeats_the_draw(home):
    made = submission.verified_submission(packed(home))
    assert submission.drawn(made, 2, 7) == submission.drawn(made, 2, 7)
    assert {tuple(cell.repetition for cell in submission.drawn(made, 2, seed)) for seed in range(9)} != {
        (0, 1)
    }
    assert len({cell.path for cell in submission.drawn(made, 3, 1)}) == 3
    for number in (0, 4):
        with pytest.raises(UserError, match=rf"--cells {number}: the submission has 3 records"):
            submission.drawn(made, number, 7)


@pytest.fixture
def scored(home, monkeypatch):
    """Score the submission with these outcomes of the contract; repeated runs give these changes."""
    made = packed(home)

    def repeat(changes):
        def repeated(of, cell, results):
            (own,) = (each for each in submission.verified_submission(of) if each.cell == cell)
            again = facts(own).model_copy(update={"started": "now", **changes})
            return Reproduction(Verdict.IDENTICAL, again, None, (None, None), [], [])

        return repeated

    def run(outcomes=KEPT, **changes):
        monkeypatch.setattr(submission, "repeat", repeat(changes))
        monkeypatch.setattr(command, "_contract", lambda path: outcomes)
        arguments = Namespace(submission=made.folder, cells=2, seed=7, results=home / "results")
        return made, command.score_main(arguments)

    return run


def test_repeated_cells_and_a_kept_contract_prove_a_submission(scored, capsys):
    made, code = scored()
    said = capsys.readouterr().out
    assert code == 0
    assert "3 records verify; 2 drawn with --seed 7" in said
    assert "mine is proved" in said
    written = json.loads((made.folder / "score.json").read_text())
    assert written["seed"] == 7
    assert [*written["repeats"]] == [
        cell.path for cell in submission.drawn(submission.verified_submission(made), 2, 7)
    ]
    assert tier_of(made) == "proved"


@pytest.mark.parametrize(
    ("outcomes", "changes", "tier", "code"),
    [
        ({"equals_ssgd_with_the_options_it_declares[mine]": "skipped"}, {}, "repeated", 0),
        (BROKEN, {}, "repeated", 1),
        (KEPT, {"trajectory_sha256": "other"}, "reported", 1),  # on the same machine
        (KEPT, {"started": "then"}, "reported", 1),  # a copy of the record
        (KEPT, {"fingerprint": "other"}, "reported", 1),
        (KEPT, {"machine": {"processor": "Q"}, "trajectory_sha256": "other"}, "proved", 0),
        (KEPT, {"machine": {"processor": "Q"}, "trajectory_sha256": "other", "score": 1.0}, "reported", 1),
    ],
)
def test_the_tier_is_computed_from_what_was_measured(scored, outcomes, changes, tier, code):
    made, found = scored(outcomes, **changes)
    assert (tier_of(made), found) == (tier, code)


def edit(change, sealed=True):
    def edited(made):
        path = made.folder / "score.json"
        content = digests.read_json(path)
        change(content)
        if sealed:
            digests.write_json(path, content)
        else:
            path.write_text(json.dumps(content))

    return edited


@pytest.mark.parametrize(
    "tamper",
    [
        edit(lambda content: content.update(seed=8), sealed=False),
        edit(lambda content: content.update(method_sha256="other")),
        edit(lambda content: content.update(repeats={})),
        edit(lambda content: content.update(tier="proved")),
        edit(lambda content: content["repeats"].update(other=next(iter(content["repeats"].values())))),
        edit(lambda content: [each.update(trajectory_sha256="x") for each in content["repeats"].values()]),
        lambda made: (made.folder / "score.json").write_text("proved"),
    ],
)
def test_a_score_that_was_changed_proves_nothing(scored, tamper):
    made, _ = scored()
    tamper(made)
    assert tier_of(made) == "reported"


def test_a_method_or_record_that_was_changed_has_no_tier(scored):
    made, _ = scored()
    edit_the_method(made.folder)
    with pytest.raises(UserError, match=r"before the file of the method mine was edited"):
        tier_of(made)


def test_a_submission_in_the_project_is_a_folder_of_plug_ins_if_it_is_named(monkeypatch):
    monkeypatch.delenv(folders.VARIABLE, raising=False)
    with folders.named(ROOT / "submissions"):
        assert folders.own() == ROOT / "submissions"
    with folders.named(ROOT / "tests"), pytest.raises(UserError, match="inside of thinwire's own folder"):
        folders.own()
    assert folders.own() is None


def test_every_submission_of_the_project_verifies():
    assert [each.name for each in submission.every() if not submission.verified_submission(each)] == []
