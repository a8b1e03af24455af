"""The suites that come with the project."""

import re

import pytest

from tests import project
from tests.project import untuned
from thinwire.config import expand, suite
from thinwire.config.suite_problems import simulate_problems
from thinwire.config.suite_schema import EVERY, Entry
from thinwire.optim.recipe import Optimizer, Recipe
from thinwire.report.tables.about import note, own_recipes


@pytest.mark.parametrize("name", project.SUITES)
def test_every_suite_is_valid_and_has_the_strong_baseline(name):
    """SSGD in full precision and in 16 bits, as the rules want it."""
    expand.require_valid(name)
    ssgd = [
        cell.method.options.get("gradients", "full")
        for cell in expand.cells(name)
        if cell.method.use == "ssgd"
    ]
    assert {"full", "bfloat16"} <= set(ssgd)


def test_only_the_demo_takes_methods_that_it_does_not_name():
    assert [name for name in project.SUITES if EVERY in suite.load(name).methods] == ["demo"]


def test_a_method_that_was_added_later_is_no_part_of_what_ran(tmp_path, monkeypatch):
    before = project.demo()
    ran = {cell.method.label for cell in before}
    added = project.add_method(tmp_path, monkeypatch)
    now = [cell for cell in expand.cells("demo") if cell.method.label in {*ran, added}]
    assert len(now) > len(before)
    assert expand.cells_as_it_ran("demo", ran) == before
    assert expand.cells_as_it_ran("demo", {*ran, added}) == now
    assert expand.cells_as_it_ran("demo", {"ssgd"}) == before, "a subset lacks what the suite names"


@pytest.mark.parametrize("claim", ["multi_step_delay", "hylo", "mp2", "hsgd", "daso"])
def test_every_publication_has_a_suite_with_ten_repetitions(claim):
    assert claim in {cell.method.use for cell in expand.cells(f"claims/{claim}")}
    assert suite.load(f"claims/{claim}").repetitions == 10


def test_an_entry_may_have_a_reading_a_batch_and_an_optimizer_of_its_own(monkeypatch):
    laptop = untuned("laptop")
    large = Entry(use="hsgd", batch=512, optimizer=Optimizer(name="lars", lr=2.0))
    entries = laptop.methods | {"large": large, "read": Entry(use="ssgd", reading="strided")}
    changed = laptop.model_copy(update={"methods": entries, "simulate": None})
    monkeypatch.setattr(expand, "load", lambda name: changed)
    found = {cell.method.label: cell for cell in expand.cells("laptop") if cell.repetition == 0}
    recipe = found["large"].recipe
    assert recipe == laptop.recipe.model_copy(update={"batch": 512, "optimizer": large.optimizer})
    assert recipe.optimizer.weight_decay == 0, "no key of the suite's optimizer is left"
    assert found["read"].recipe == laptop.recipe.model_copy(update={"reading": "strided"})
    assert found["read"].fingerprint != found["ssgd"].fingerprint
    assert found["ssgd"].recipe == laptop.recipe
    assert len({found[label].seed for label in ("ssgd", "large", "read")}) == 1, "the runs are paired"


def test_the_tables_say_which_batch_and_optimizer_differ_from_those_of_the_suite():
    entry = Entry(use="hsgd", batch=512, optimizer=Optimizer(name="lars", lr=2.0, momentum=0.5, trust=0.02))
    laptop = untuned("laptop")
    changed = laptop.model_copy(update={"methods": {"ssgd": Entry(), "large": entry}})
    assert own_recipes(changed) == {
        "large": "batch 512, lars, lr 2, weight_decay 0, momentum 0.5, trust 0.02, lr_inside_momentum True"
    }
    assert "(batch 128, sgd, lr 0.1," in note(changed)
    assert not own_recipes(laptop)


def test_recipes_without_prefetching_keep_their_fingerprints():
    plain = suite.load("demo").recipe
    assert "prefetch" not in plain.model_dump()
    ahead = plain.model_copy(update={"prefetch": True})
    assert Recipe.of_dump(ahead.model_dump(mode="json")) == ahead
    assert Recipe.of_dump(plain.model_dump(mode="json")) == plain


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clusters": ["ethernet_1gb"]}, r"simulate.clusters: there is no cluster .*nearest is ethernet_1g$"),
        ({"profiles": ["a100"]}, r"simulate.profiles: there is no compute profile .*nearest is a100_tf32$"),
        (
            {"clusters": ["infiniband_100g_4gpus"], "workers": [6]},
            "6 workers cannot be spread over nodes of inf",
        ),
    ],
)
def test_what_cannot_be_simulated_is_a_sentence(change, words):
    demo = suite.load("demo")
    asked = demo.model_copy(update={"simulate": demo.simulate.model_copy(update=change)})
    (sentence,) = simulate_problems(asked)
    assert re.search(words, sentence)


def test_steps_with_other_batches_are_not_simulated():
    demo = suite.load("demo")
    asked = demo.model_copy(update={"methods": demo.methods | {"large": Entry(use="ssgd", batch=512)}})
    (sentence,) = simulate_problems(asked)
    assert sentence == "simulate: large has a batch of its own; move it to a suite without simulated times"
