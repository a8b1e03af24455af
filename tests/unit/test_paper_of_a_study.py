"""The paper of other results: its sentences follow from their numbers of workers, and from their numbers."""

import json
import re

import pytest

from tests.unit.test_paper import queried, texts
from thinwire.base.folders import REFERENCE
from thinwire.plugins import ROOT
from thinwire.publish.paper import paper, values
from thinwire.publish.paper.values import MINUS


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


# Conclusions, and a number with which each holds and one that contradicts it.
CONCLUSIONS = [
    ("What is counted decides", "mp2.mp2.saved", "47.25", "90.00"),
    ("MP2 saves its published 88.98 %", "mp2.mp2_published.push_saved", "88.98", "88.97"),
    ("are the baseline to beat", "study.lenet.16.hsgd.between_saved", "20.0", "60.0"),
    ("More nodes, less saved", "study.lenet.16.hsgd.between_saved", "20.0", "60.0"),
    ("on any number of nodes", "study.lenet.4.ssgd_bf16.between_saved", "50.0", "49.9"),
    ("save most and cost accuracy", "study.cnn_bn.16.local_sgd.difference", MINUS + "1.84", "0.10"),
    ("move the load", "study.lenet.16.hylo.busiest_times", "6.6", "0.9"),
    ("The mean hides a server", "study.lenet.16.hylo.busiest_times", "6.6", "0.9"),
    ("matters, too", "track.muloco.score", "0.67", "not reached"),
    ("A comparison with AdamW alone", "track.muloco.steps", "30", "not reached"),
    ("may explain it", "surprises.lenet.ssgd_0.1266.difference", MINUS + "0.62", "0.62"),
    ("may lose as much", "surprises.lenet.ssgd_0.1266.difference", MINUS + "0.62", "0.62"),
    ("Longer training shrinks losses", "length_24.dgc.difference", MINUS + "0.01", MINUS + "4.00"),
    ("HSGD would have seemed fast", "study_1g.hsgd.speed_up", "0.91", "0.50"),
    ("as much about what it was compared with", "ratio.least", "1.0", "30.0"),
]


@pytest.mark.parametrize("holds", [True, False])
def test_a_conclusion_is_drawn_where_its_numbers_allow_it(says, holds):
    texts = {name: yes if holds else no for _, name, yes, no in CONCLUSIONS}
    text = says(lambda values: values | {name: values[name] | {"text": texts[name]} for name in texts})
    assert [sentence for sentence, *_ in CONCLUSIONS if (sentence in text) != holds] == []


def test_a_study_of_other_numbers_of_workers_has_the_same_sentences(says):
    def of_4_and_32_workers(values):
        of_8 = re.compile(r"study\.(\w+\.8\.|nodes_of_8$)")
        kept = {name: value for name, value in values.items() if not of_8.match(name)}
        renamed = {re.sub(r"(study\.(\w+\.|nodes_of_))16\b", r"\g<1>32", name): kept[name] for name in kept}
        return renamed | {"study.most_workers": values["study.most_workers"] | {"text": "32"}}

    text = says(of_4_and_32_workers)
    assert "it saves 33.3 % between 2 nodes and 20.0 % between 4 nodes" in text
    assert "So on 32 workers, Top-k" in text
