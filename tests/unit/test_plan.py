"""What `thinwire plan` says of methods on a network and a link."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest
import torch

from thinwire.base.errors import UserError
from thinwire.base.folders import REFERENCE
from thinwire.cli import main as command_line
from thinwire.cli import simulate as command
from thinwire.config.suite_schema import Round
from thinwire.config.yaml_file import Module
from thinwire.plugins import ROOT
from thinwire.report.plan_table import Validated, rows, sentences
from thinwire.simulation import plan, stand_ins
from thinwire.simulation.plan import Answer, LeftOut, Planned, Question
from thinwire.simulation.probe import Link

METHOD = {method.module.label: method for method in plan.methods()}


@pytest.fixture(scope="module")
def question():
    cell = plan.networks()["resnet18"]
    small = replace(cell, model=Module("cnn", "cnn", {"width": 8}))
    return Question(plan.computing_as(small, "a100_bf16"), 8, 4, 1.0, 5e-6, "a100_bf16")


def test_two_steps_of_a_round_stand_for_all_of_it(question):
    module = Module("local_sgd", "local_sgd", {"period": 5})
    whole = Planned(module, Round(steps=5))
    part = Planned(module, Round(steps=5, mirrored=2, options={"period": 2}))
    expected, found = (plan.answer(question, each) for each in (whole, part))
    assert found.seconds == pytest.approx(expected.seconds, rel=0.01)
    assert found.compute_seconds == pytest.approx(expected.compute_seconds, rel=0.01)
    assert found.between_nodes_bytes == pytest.approx(expected.between_nodes_bytes)


def test_the_fastest_comes_first_and_a_method_that_cannot_run_is_left_out(question):
    impossible = Planned(Module("impossible", "daso", {"fixed_skips": 1}))
    found, left = plan.answers(question, [METHOD["ssgd"], METHOD["ssgd_bf16"], impossible])
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)
    assert [one.label for one in left] == ["impossible"]
    assert "fixed_skips and fixed_wait belong together" in left[0].reason
    bytes_of = {one.method.module.label: one.between_nodes_bytes for one in found}
    assert bytes_of["ssgd"] == 2 * bytes_of["ssgd_bf16"]
    # In a hierarchy, the 4 workers of each of the 2 nodes share a ring's bytes.
    weights = plan.weights(question.cell)
    assert bytes_of["ssgd"] == pytest.approx(2 * 1 / 2 * 4 * weights / 4, rel=0.01)
    with pytest.raises(UserError, match="fixed_skips"):
        plan.answers(question, [impossible])


def test_why_a_method_is_left_out_has_the_numbers_that_were_asked_for(question):
    left = plan.answer(replace(question, cell=plan.stand_in(300)[0], workers=64), METHOD["power_sgd"])
    assert left.reason.startswith("power_sgd cannot run on 64 workers on 16 nodes: no tensor ")


def test_at_the_rate_that_it_needs_a_worker_computes_in_nine_tenths_of_the_time(question):
    known = replace(question, step_seconds=0.1)
    required = plan.answer(known, METHOD["ssgd"]).required_gbit_per_second
    for factor, enough in ((1.02, True), (0.98, False)):
        at = replace(known, rate_gbit_per_second=factor * required)
        answer = plan.answer(at, METHOD["ssgd"])
        assert (answer.compute_seconds / answer.seconds >= 0.9) == enough
    # Where all are on one node, no link matters; where calls take longer than computing, no link is enough.
    near = replace(known, workers=4)
    assert plan.answer(near, METHOD["ssgd"]).required_gbit_per_second == 0
    far = replace(known, latency_seconds=1.0)
    assert plan.answer(far, METHOD["ssgd"]).required_gbit_per_second == math.inf


@pytest.mark.parametrize("parameters", [50_000, 2_000_000])
def test_a_stand_in_has_about_so_many_weights(parameters):
    _, weights = plan.stand_in(parameters)
    assert weights == pytest.approx(parameters, rel=0.03)


def test_the_passes_of_a_stand_in_take_the_seconds_that_are_given():
    cell, _ = plan.stand_in(50_000)
    question = Question(plan.computing_as(cell, "a100_bf16"), 2, 1, 1.0, 5e-6, "a100_bf16", step_seconds=3.0)
    assert plan.answer(question, METHOD["ssgd"]).compute_seconds == pytest.approx(3.0, rel=0.01)


@pytest.mark.parametrize("error", [UserError("it wants other images"), ValueError("of no use")])
def test_a_network_that_cannot_be_built_is_refused(monkeypatch, error):
    def refuse(cell):
        raise error

    monkeypatch.setattr(plan, "weights", refuse)
    with pytest.raises(UserError, match=r"^lenet cannot be built without data: (it|ValueError: of)"):
        plan.network_of("lenet")


def test_the_documentation_has_the_number_of_methods():
    assert len({method.module.use for method in plan.methods()}) == 9
    assert "This simulates nine methods" in (ROOT / "docs" / "large_networks.md").read_text()


def test_each_network_is_listed_once():
    with pytest.raises(UserError, match="there is no network 'none'") as refused:
        plan.network_of("none")
    assert str(refused.value).count("alexnet,") == 2  # and mp2_alexnet


def test_a_network_that_does_not_fit_its_data_is_refused_in_one_sentence(monkeypatch, capfd):
    def build(network):
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    monkeypatch.setattr(stand_ins.Network, "build", build)
    with pytest.raises(
        UserError, match=r"^lenet cannot be tried on cifar10, .* \(3, 32, 32\): .*3072\] X \[64"
    ):
        plan.network_of("lenet")
    assert capfd.readouterr().err == ""


def answered(label, seconds, required=1.0):
    return Answer(METHOD[label], seconds, 0.1, 1e6, required)


def test_the_table_says_what_is_known_and_what_is_not(question):
    own = Answer(replace(METHOD["top_k"], module=Module("mine", "top_k", {})), 0.2, 0.1, 1e6, math.inf)
    found = [own, answered("power_sgd", 0.25), answered("ssgd_bf16", 0.3), answered("ssgd", 0.4, 0.0)]
    mine, power_sgd, _, ssgd = rows(found, 0.0)
    assert mine["speed_up"] == pytest.approx(1.5)
    assert (mine["accuracy"], mine["required_gbit_per_second"]) == ("unknown", None)
    assert power_sgd["accuracy"].startswith("3 different, 3 inconclusive (")
    assert ssgd["accuracy"] == "baseline"
    assert 0 < ssgd["error_percent"] < 5
    text = sentences(question, "a network", found, [LeftOut("daso", "it has its reasons")])
    assert "none does" in text
    assert "this is outside of it" in text
    assert text.endswith("Left out: daso: it has its reasons")
    assert Validated.read().holds(4, 0.1)
    assert not Validated.read().holds(2, 0.1, 0.025)
    assert Validated.read(0.025).holds(2, 0.1, 0.025)
    mine, *_, ssgd = rows(found, 0.025)
    assert (mine["error_percent"], ssgd["error_percent"] > 0) == (None, True)


def test_options_that_differ_between_times_and_accuracy_are_named(question):
    found = [answered(label, 0.4) for label in ("diloco", "dgc", "local_sgd", "ssgd")]
    lines = sentences(question, "a network", found, []).splitlines()
    diloco, dgc = [line for line in lines if line.startswith("Options of ")]
    assert diloco.startswith("Options of diloco: period 100 in the times, 16 in the accuracy; ")
    assert dgc.startswith("Options of dgc: density 0.001 in the times, 0.01 in the accuracy; ")


def test_the_command_prints_json(monkeypatch, capsys):
    monkeypatch.setattr(command, "answers", lambda question, methods: ([answered("ssgd", 0.4, math.inf)], []))
    monkeypatch.setattr(command, "measure", lambda server: Link(2e9, 1e9, 0.05))
    line = "plan --model resnet18 --workers 16 --per-node 4 --probe 0123456789abcdef@other --json"
    assert command.plan_main(command_line.parser().parse_args(line.split())) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["nodes"], content["weights"], content["validated"]) == (4, 11_173_962, False)
    assert (content["rate_gbit_per_second"], content["latency_seconds"]) == (1.0, 0.025)
    assert content["methods"][0]["required_gbit_per_second"] is None


@pytest.mark.slow
def test_the_same_question_has_the_answer_of_the_committed_times():
    cell = plan.computing_as(plan.networks()["resnet18"], "a100_bf16")
    answer = plan.answer(Question(cell, 32, 8, 10.0, 20e-6, "a100_bf16"), METHOD["ssgd_bf16"])
    committed = pd.read_csv(ROOT / REFERENCE / "times" / f"{plan.SUITE}.csv")
    place = "model == 'resnet18' and method == 'ssgd_bf16' and workers == 32 and nodes == 4"
    (row,) = committed.query(
        f"{place} and latency_seconds < 1e-3 and rate_gbit_per_second == 10"
    ).itertuples()
    assert answer.seconds == pytest.approx(row.step_seconds, rel=1e-4)
    assert answer.between_nodes_bytes == pytest.approx(row.between_nodes_bytes, rel=1e-4)
