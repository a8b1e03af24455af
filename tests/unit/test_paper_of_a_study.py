"""The paper of other results: its sentences follow from their numbers of workers, and from their numbers."""

import json
import re

import pytest

from tests.unit.test_paper import queried, texts
from thinwire.base.folders import REFERENCE
from thinwire.plugins import ROOT
from thinwire.publish.paper import paper, values


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The committed results without the runs behind them, and the paper that is made of them."""
    results = tmp_path_factory.mktemp("reference") / "results"
    results.mkdir()
    for path in (ROOT / REFERENCE).iterdir():
        if path.name not in ("paper", "paper.pdf", "runs"):
            (results / path.name).symlink_to(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "_has_runs_everywhere", lambda *_: True)
        patch.setattr(values, "collected_folders", lambda _: set())
        paper.paper(results)
    # What stands at a place of its own is in no paragraph that can be asked for.
    with (results / "paper/paper.typ").open("a") as text:
        text.write('#include "sections/abstract.typ"\n')
    return results


@pytest.fixture
def says(reference):
    """Gives the text of the paper with other values."""
    path = reference / "paper/values.json"
    before = path.read_text()

    def written(change):
        content = json.loads(before)
        content["values"] = change(content["values"])
        path.write_text(json.dumps(content))
        return " ".join(" ".join(texts(queried(reference, "par"))).replace("\N{NO-BREAK SPACE}", " ").split())

    yield written
    path.write_text(before)


def test_a_study_of_other_numbers_of_workers_has_the_same_sentences(says):
    def of_4_and_32_workers(values):
        of_8 = re.compile(r"study\.(\w+\.8\.|nodes_of_8$)")
        kept = {name: value for name, value in values.items() if not of_8.match(name)}
        renamed = {re.sub(r"(study\.(\w+\.|nodes_of_))16\b", r"\g<1>32", name): kept[name] for name in kept}
        return renamed | {"study.most_workers": values["study.most_workers"] | {"text": "32"}}

    text = says(of_4_and_32_workers)
    assert "it saves 33.3 % between 2 nodes and 20.0 % between 4 nodes" in text
    assert "So on 32 workers, Top-k" in text
