"""The description of results as an RO-Crate: whole, true to the records, small, and valid."""

import hashlib
import json
from datetime import datetime
from urllib.parse import unquote

import pytest

from tests import sound
from thinwire import record
from thinwire.errors import UserError
from thinwire.report import collect, other_records, report_digests
from thinwire.ro_crate import workflow
from thinwire.ro_crate.entities import METADATA
from thinwire.ro_crate.write import write

GRID = sound.cells("demo")[:2]
DONE, FAILED = GRID
ABOUT = {
    "started": "2026-01-02T03:04:05+00:00",
    "ended": "2026-01-02T03:14:05+00:00",
    "thinwire": "0.1.0",
    "git": {"revision": "0" * 40, "changes_sha256": None},
    "python": "3.11.7",
    "torch_build": "2.13.0+cpu",
    "packages": {"numpy": "2.4.6", "torch": "2.13.0+cpu"},
    "hardware": {"processor": "a processor", "cores": 2, "nccl": None},
    "environment": {"OMP_NUM_THREADS": "1"},
}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A run that is done and one that has failed before it began, collected."""
    for module in (collect, other_records):
        monkeypatch.setattr(module, "cells", lambda suite: GRID if suite == "demo" else [])
    about = ABOUT | {"sources_sha256": sound.sources(DONE)}
    sound.publish(tmp_path, DONE, provenance=about)
    early = {"started": "2026-01-02T03:00:00+00:00", "sources_sha256": sound.sources(FAILED)}
    unknown = {"epochs": 0, "result": None, "parameters": None, "total_steps": None}
    sound.publish(tmp_path, FAILED, status="failed", reason="out of luck", provenance=early, **unknown)
    collect.collect(["demo"], tmp_path)
    write(tmp_path)
    return tmp_path


def entities(results):
    graph = json.loads((results / METADATA).read_text())["@graph"]
    found = {entity["@id"]: entity for entity in graph}
    assert len(found) == len(graph), "no identifier has two entities"
    return found


def references(tree):
    if isinstance(tree, list):
        for each in tree:
            yield from references(each)
    elif isinstance(tree, dict):
        if set(tree) == {"@id"}:
            yield tree["@id"]
        for value in tree.values():
            yield from references(value)


def test_a_run_is_an_action_with_what_its_record_says(results):
    found = entities(results)
    run = found[f"#runs/demo/{DONE.path}"]
    assert (run["startTime"], run["endTime"]) == (ABOUT["started"], ABOUT["ended"])
    assert run["result"] == {"@id": f"runs/demo/{DONE.path}/run.json"}
    assert run["object"] == {"@id": "workflow/config/demo.yaml"}
    assert "agent" not in run
    engine = found[run["instrument"]["@id"]]
    assert engine["softwareRequirements"] == ["Python 3.11.7", "numpy 2.4.6", "torch 2.13.0+cpu"]
    assert "0" * 40 in engine["description"]
    assert found[run["location"]["@id"]]["name"] == "processor: a processor, cores: 2"
    suite = found["#suite/demo"]
    assert datetime.fromisoformat(suite["startTime"]) < datetime.fromisoformat(run["startTime"])


def test_a_failure_gives_its_reason_and_what_is_unknown_is_left_out(results):
    run = entities(results)[f"#runs/demo/{FAILED.path}"]
    assert run["error"] == "failed: out of luck"
    assert run["actionStatus"].endswith("FailedActionStatus")
    assert not {"endTime", "location", "environment"} & set(run)


def test_every_reference_and_every_file_is_there_with_its_digest(results):
    found = entities(results)
    beyond = {identifier for entity in found.values() for identifier in references(entity)} - set(found)
    assert all(identifier.startswith("https://") for identifier in beyond)
    files = [entity for entity in found.values() if "File" in entity["@type"]]
    assert {"summary.csv", "curves.parquet", "collected.json", "workflow/Snakefile"} <= {
        f["@id"] for f in files
    }
    for file in files:
        content = (results / unquote(file["@id"])).read_bytes()
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
    parts = {part for entity in found.values() for part in references(entity.get("hasPart", []))}
    assert {file["@id"] for file in files} <= parts


def test_the_same_records_give_the_same_bytes(results):
    before = (results / METADATA).read_bytes()
    write(results)
    assert (results / METADATA).read_bytes() == before


def test_a_run_takes_little_room(results):
    """20,000 runs, the most of a suite, stay below 30 MB."""
    found = entities(results)
    own = [found[f"#runs/demo/{DONE.path}"], found[f"runs/demo/{DONE.path}/run.json"]]
    named = sum(len(entity["@id"]) + 12 for entity in own)  # in the root and in the folder of the suite
    assert sum(len(json.dumps(entity)) for entity in own) + named < 1500


def test_a_changed_record_is_refused(results):
    path = results / "runs/demo" / DONE.path / record.CURVE
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UserError, match="is not the file that was written"):
        write(results)


@pytest.mark.parametrize("name", ["tables/demo/made.csv", "figures/demo/made.svg", collect.SUMMARY])
def test_a_changed_table_or_figure_is_refused(results, name):
    for made in ("tables/demo/made.csv", "figures/demo/made.svg"):
        (results / made).parent.mkdir(parents=True)
        (results / made).write_text("made")
    report_digests.write(results, "demo")
    write(results)
    assert name in entities(results)
    (results / name).write_text("changed")
    with pytest.raises(UserError, match=rf"{name} (was changed|is not the file that was written)"):
        write(results)


def test_without_the_pipeline_one_sentence_says_where_to_start(tmp_path, monkeypatch):
    monkeypatch.setattr(workflow, "ROOT", tmp_path)
    with pytest.raises(
        UserError, match="Snakefile is missing: start thinwire crate in a clone of the repository"
    ):
        workflow.copy_files(tmp_path / "crate", [])


def test_nothing_is_described_before_it_is_collected(results):
    (results / collect.COLLECTED).unlink()
    with pytest.raises(UserError, match=r"collected\.json is missing: collect the records first"):
        write(results)


# What the context of RO-Crate 1.1 makes of the terms that are used here, which are all others of schema.org.
TERMS = {
    "File": "http://schema.org/MediaObject",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
    "ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow",
    "FormalParameter": "https://bioschemas.org/FormalParameter",
    "input": "https://bioschemas.org/ComputationalWorkflow#input",
}


# Recommendations. No record names an agent or an author, or says when a failed run ended. The project has no
# address, and writes no README.md beside the results.
NOT_FOLLOWED = ("agent", "`author`", "`publisher`", "endTime", "url", "absolute URI", "README.md")


class Answer:
    """The context of RO-Crate 1.1, as far as this crate needs it."""

    status_code, headers = 200, {"Content-Type": "application/ld+json"}

    def __init__(self, crate):
        used = {key for entity in entities(crate).values() for key in entity if not key.startswith("@")}
        types = {
            each for entity in entities(crate).values() for each in [entity["@type"]] if isinstance(each, str)
        }
        others = {"SoftwareSourceCode", "HowTo"}
        self._terms = {name: f"http://schema.org/{name}" for name in used | types | others} | TERMS
        self.text = json.dumps(self.json())

    def json(self):
        return {"@context": self._terms}


def test_it_is_a_valid_provenance_run_crate(results, monkeypatch):
    """By the validator and its profiles, without the internet."""
    models = pytest.importorskip("rocrate_validator.models")
    from rocrate_validator import services
    from rocrate_validator.utils.http import HttpRequester

    def get(self, url, **options):
        assert url == "https://w3id.org/ro/crate/1.1/context", "nothing else is fetched"
        return Answer(results)

    monkeypatch.setattr(HttpRequester, "get", get, raising=False)
    settings = services.ValidationSettings(
        rocrate_uri=models.URI(str(results)),
        profile_identifier="provenance-run-crate",
        requirement_severity=models.Severity.RECOMMENDED,
        offline=True,
    )
    found = services.validate(settings).get_issues()
    assert [issue.message for issue in found if issue.severity == models.Severity.REQUIRED] == []
    left = {issue.message for issue in found if not any(part in issue.message for part in NOT_FOLLOWED)}
    assert left == set()
