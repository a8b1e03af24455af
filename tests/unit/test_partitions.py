"""Partitions of the training inputs among the workers: what they are, and that every run honours them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import thinwire
from tests import small
from tests.bad_input import suites
from tests.summary import ABOUT
from tests.unit.test_text import shakespeare, works_of_shakespeare
from thinwire import plugins
from thinwire.base import seeds
from thinwire.base.errors import UserError
from thinwire.base.learning import CLASSIFICATION
from thinwire.base.placement import Cluster
from thinwire.config import expand
from thinwire.config.cell import cell_of as cell_of_identity
from thinwire.data.arrays import held_out
from thinwire.data.batches import Batches
from thinwire.data.partition import Passes, clients_of, partition_of
from thinwire.optim.recipe import Dirichlet
from thinwire.publish.page.data import cell_names
from thinwire.publish.wandb import fields
from thinwire.records import record
from thinwire.records.invariants import Pairs, broken_in_run
from thinwire.report.rows import collect
from thinwire.report.rows.comparisons import with_comparisons
from thinwire.report.rows.quantities import summarise
from thinwire.report.rows.times import with_times
from thinwire.report.tables.about import DIVERGENCE, partitions_note
from thinwire.report.tables.write import summary
from thinwire.simulation.mirrored import MirroredCell
from thinwire.simulation.stand_ins import repeated
from thinwire.train.result_files import record_folder
from thinwire.train.run_cell import Attempt

CPU = torch.device("cpu")
DIGITS = small.digits(train=1258)
NATURAL = replace(DIGITS, clients=DIGITS.train_labels)
SKEWED = {"dirichlet": 0.1}


def divided(kind, workers=4, seed=3, data=NATURAL):
    return partition_of(data, workers, kind, seed)


@pytest.mark.parametrize("kind", [*map(Dirichlet, (1e-6, 0.1, 1e6)), "natural"])
@pytest.mark.parametrize("workers", [1, 3, 10])
def test_a_partition_is_disjoint_and_complete(kind, workers):
    made = divided(kind, workers)
    assert len(made.inputs) == workers
    assert torch.equal(torch.cat(made.inputs).sort().values, torch.arange(len(DIGITS.train_labels)))
    sizes = [len(own) for own in made.inputs]
    assert min(sizes) > 0
    assert kind == "natural" or max(sizes) - min(sizes) <= 1


def test_a_small_alpha_divides_labels_more_unevenly():
    means = [
        np.mean([divided(Dirichlet(alpha), seed=seed).divergence(DIGITS) for seed in range(10)])
        for alpha in (0.001, 0.1, 0.5, 2, 10, 1e6)
    ]
    assert means == sorted(means, reverse=True)
    # Each of four workers has two and a half of ten labels, or nearly all of them equally often.
    assert means[0] > 0.55
    assert means[-1] < 0.08


def test_with_a_large_alpha_labels_that_are_rare_stay_so_everywhere():
    rare = replace(DIGITS, train_labels=(DIGITS.train_labels > 7).long() * 9)
    of_all = float((rare.train_labels == 9).double().mean())
    for own in divided(Dirichlet(1e6), data=rare).inputs:
        assert float((rare.train_labels[own] == 9).double().mean()) == pytest.approx(of_all, abs=0.06)


def test_the_divergence_is_the_mean_total_variation():
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    data = replace(DIGITS, train_labels=labels, clients=torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]), classes=3)
    # Of all 3/8, 2/8 and 3/8; of the workers 3/4, 1/4, 0 and 0, 1/4, 3/4.
    assert divided("natural", 2, data=data).divergence(data) == pytest.approx(3 / 8)
    assert divided("natural", 1, data=data).divergence(data) == 0
    assert divided("natural", 10).divergence(DIGITS) == pytest.approx(0.9)


def test_clients_stay_whole_and_beside_each_other_and_sizes_are_nearly_equal():
    sizes = [3, 1, 4, 1, 5, 9, 2, 6]
    data = replace(DIGITS, clients=torch.arange(8).repeat_interleave(torch.tensor(sizes)))
    clients = [data.clients[own].unique().tolist() for own in divided("natural", 4, data=data).inputs]
    assert clients == [[0, 1, 2], [3, 4], [5], [6, 7]]
    # One that is larger than all others leaves a client for everybody.
    for sizes in ([90, 1, 1, 1], [1, 1, 1, 90], [1, 90, 1, 1]):
        data = replace(DIGITS, clients=torch.arange(4).repeat_interleave(torch.tensor(sizes)))
        owned = [data.clients[own].unique().tolist() for own in divided("natural", 3, data=data).inputs]
        assert [client for own in owned for client in own] == [0, 1, 2, 3]
        assert all(owned)


def test_it_depends_on_the_seed_and_the_digest_is_known():
    kind = Dirichlet(0.1)
    assert divided(kind).sha256 == divided(kind).sha256 != divided(kind, seed=4).sha256
    assert divided("natural").sha256 == divided("natural", seed=4).sha256
    digest = divided(kind, 2, data=replace(DIGITS, train_labels=torch.arange(6) % 2)).sha256
    assert divided("iid") is None
    assert digest == "be53c00d56a195682bfe5227785db5d9d049ecf716f0809e78aeda45a226352f"


def test_a_worker_goes_through_its_inputs_in_passes_whatever_the_batch():
    inputs = torch.tensor([5, 7, 11, 13, 17])
    passes, stream = Passes(inputs, seeds.of_passes(1, 0)), seeds.of_passes(1, 0)
    seen = torch.cat([passes.between(first, first + 3) for first in range(0, 15, 3)])
    for one in seen.view(3, 5):
        assert one.sort().values.tolist() == inputs.tolist()
    assert len({tuple(one.tolist()) for one in seen.view(3, 5)}) == 3
    # From anywhere, and more than a pass at once: a run that goes on sees what it would have seen.
    assert torch.equal(Passes(inputs, stream).between(4, 14), seen[4:14])
    assert not torch.equal(Passes(inputs, seeds.of_passes(1, 1)).between(0, 15), seen)


def batches(partition, ranks=None):
    return Batches(NATURAL, 4, 5, 3, CPU, torch.float64, ranks=ranks, partition=partition)


@pytest.mark.parametrize("partition", [Dirichlet(0.1), "natural"])
def test_workers_see_their_own_inputs_only_and_an_epoch_has_as_many_steps_as_without(partition):
    run = batches(partition)
    assert run.steps_per_epoch == batches("iid").steps_per_epoch
    for worker, own in enumerate(divided(partition).inputs):
        allowed = set(DIGITS.train_labels[own].tolist())
        steps = -(-len(own) // 5)
        labels = torch.cat([run.at(step)[worker][1] for step in range(steps)])[: len(own)]
        # A pass has each of them once.
        assert set(labels.tolist()) <= allowed
        assert torch.equal(labels.sort().values, DIGITS.train_labels[own].sort().values)
        alone = batches(partition, ranks=[worker]).at(7)[0]
        assert all(map(torch.equal, alone, run.at(7)[worker]))


def test_held_out_and_repeated_data_keep_their_clients():
    held, twice = held_out(NATURAL), repeated(NATURAL, 2000)
    for data in (held, twice):
        assert torch.equal(data.clients, data.train_labels)
        assert len(torch.cat(divided("natural", data=data).inputs)) == len(data.train_labels)


def test_plays_and_novels_are_clients():
    dataset, raw = works_of_shakespeare()
    clients = dataset.client_of_each(raw.train_labels)
    first = np.flatnonzero(np.diff(clients, prepend=-1))
    assert len(clients) == len(raw.train_labels)
    assert len(first) == 40
    assert clients.tolist() == sorted(clients.tolist())
    # The first window of a play is the only one that does not begin with the last label before it.
    follows = raw.train_inputs[1:, 0] == raw.train_labels[:-1, -1]
    assert not set(np.flatnonzero(~follows) + 1) - set(first.tolist())
    few = shakespeare(windows=3072)
    assert np.bincount(few.client_of_each(raw.train_labels[:3072])).tolist() == [2088, 984]


def test_bad_input_is_one_sentence():
    text = small.texts()
    with pytest.raises(UserError, match=r"^the partition dirichlet shares labels, and .* has windows: take"):
        divided(Dirichlet(1.0), data=text)
    with pytest.raises(UserError, match=r"^the partition natural needs clients, and .* declares none: take"):
        divided("natural", data=text)
    with pytest.raises(UserError, match="declares none"):
        clients_of(text, plugins.get("dataset", "digits").load()())
    with pytest.raises(UserError, match="a client at least, and digits has 10 of them for 11 workers"):
        divided("natural", 11)
    with pytest.raises(UserError, match=r"gives \[52363\] numbers instead of \[24\]"):
        clients_of(text, plugins.get("dataset", "austen").load()())


TEXT = {"datasets": ["shakespeare"], "models": {"gpt": None}}
NO_CLIENTS = {(name, "task"): "next_character" for name in ("shakespeare", "gpt")}


def test_a_suite_whose_data_cannot_be_divided_is_one_sentence(monkeypatch, write_suite):
    def refused(changes):
        write_suite(changes)
        return suites.message(expand.require_valid, "bad")

    shares = "dirichlet shares labels, and shakespeare has windows: take natural or iid"
    assert f"recipe.partition: {shares}" in refused({**TEXT, "recipe.partition": SKEWED})
    entry = {"shakespeare": {"partition": SKEWED}}
    assert f"datasets.shakespeare.partition: {shares}" in refused({**TEXT, "datasets": entry})
    monkeypatch.setattr(plugins.Plugin, "literal", lambda self, name: NO_CLIENTS.get((self.name, name)))
    needs = "recipe.partition: natural needs clients, and shakespeare declares none: take iid"
    assert needs in refused({**TEXT, "recipe.partition": "natural"})


def test_data_sets_of_a_suite_may_be_divided_in_several_ways(write_suite):
    entries = {"same": {"use": "digits"}, "skewed": {"use": "digits", "partition": SKEWED}}
    write_suite({"datasets": entries, "recipe.partition": "natural", "methods.dgc": {"epochs": 2}})
    found = {(c.dataset, c.method.label): c for c in expand.cells("bad")}
    assert {key: str(cell.recipe.partition) for key, cell in found.items()} == {
        ("same", "ssgd"): "natural",
        ("same", "dgc"): "natural",
        ("skewed", "ssgd"): "dirichlet 0.1",
        ("skewed", "dgc"): "dirichlet 0.1",
    }
    assert found["skewed", "dgc"].recipe.epochs == 2
    assert found["skewed", "dgc"].preparer_recipe.partition == Dirichlet(0.1)
    assert cell_of_identity(found["skewed", "ssgd"].identity()) == found["skewed", "ssgd"]


@pytest.mark.parametrize("partition", [SKEWED, "natural"])
def test_a_run_resumes_to_the_same_bits_and_prefetching_changes_none(partition, tmp_path):
    def run(prefetch=True):
        data = replace(small.digits(), clients=small.digits().train_labels)
        return small.trainer(small.task(2, data=data, partition=partition, prefetch=prefetch), "ssgd")

    whole = run(prefetch=False)
    whole.train()
    assert small.everything(small.resumed(run, 7, tmp_path)) == small.everything(whole)
    iid = small.trainer(small.task(2), "ssgd")
    assert (iid.total_steps, iid.partition) == (whole.total_steps, None)


@pytest.mark.parametrize("partition", [SKEWED, "natural"])
def test_the_one_worker_of_a_preparation_has_all_data_but_those_held_out(partition, tmp_path):
    task = small.task(4, data=NATURAL, partition=partition)
    job = small.preparation_job(task, tmp_path)
    trained = job.train(job.task, thinwire.Method, None, tmp_path / "checkpoints")
    (own,) = trained.partition.inputs
    assert torch.equal(own, torch.arange(len(held_out(NATURAL).train_labels)))


def cell_of(method, partition, **changes):
    cell = next(c for c in expand.cells("demo") if (c.method.label, c.workers) == (method, 4))
    recipe = cell.recipe.model_copy(update={"epochs": 1, "partition": partition})
    return replace(cell, recipe=recipe, preparer_recipe=recipe, **changes)


@pytest.fixture(scope="module")
def trained(laid_out):
    """Cells and their records: two methods with a partition, and a run of another suite without one."""
    cells = [cell_of(method, Dirichlet(0.1)) for method in ("ssgd", "top_k")]
    cells.append(replace(cell_of("ssgd", "iid"), suite="laptop"))
    for cell in cells:
        Attempt(cell, laid_out, 60.0).run(lambda trainer: None)
    return [(cell, record.read(record_folder(laid_out, cell) / record.RUN)) for cell in cells]


def test_the_record_has_the_digest_and_the_divergence_and_all_methods_have_the_same(trained, laid_out):
    pairs, ((first, made), (second, other), _) = Pairs(), trained
    folder = record_folder(laid_out, second)
    assert not [*pairs.broken(record_folder(laid_out, first), made, first)]
    assert not [*pairs.broken(folder, other, second)]
    assert made.partition == other.partition
    expected = partition_of(DIGITS, 4, Dirichlet(0.1), first.seed)
    assert made.partition.sha256 == expected.sha256
    assert made.partition.divergence == expected.divergence(DIGITS) > 0.3
    assert (made.partition.fewest_inputs, made.partition.most_inputs) == (314, 315)
    assert made.cell["recipe"]["partition"] == SKEWED
    changed = made.partition.model_copy(update={"sha256": "0" * 64})
    (found,) = pairs.broken(folder, other.model_copy(update={"partition": changed}), second)
    assert found.what.startswith("its partitions among 4 workers differ")


def test_tables_the_page_and_wandb_show_the_divergence_and_nothing_without_a_partition(trained, laid_out):
    cells = [cell for cell, _ in trained]
    assert [str(fields.config(made)).count("partition") > 0 for _, made in trained] == [True, True, False]
    collect.collect_cells(cells, cells, laid_out)

    def shown(suite):
        runs = collect.read_summary(laid_out, suite)
        compared = with_comparisons(summarise(runs, ["ssgd"], CLASSIFICATION), NOTHING)
        return runs, with_times(compared, NOTHING)

    runs, table = shown("demo")
    (divergence,) = set(runs.partition_divergence)
    assert set(runs["partition"]) == {"dirichlet 0.1"}
    assert table.partition_divergence.tolist() == pytest.approx([divergence] * 2)
    text, words = summary(table, ABOUT)["md"], f"dirichlet 0.1, divergence {divergence:.2f}"
    assert f"without measured times. Partition: {words}.\n" in text
    assert text.count(DIVERGENCE) == 1
    assert f"data. digits, cnn, 4 workers: {words}. Divergence" in partitions_note(runs, cell_names(runs))

    runs, table = shown("laptop")
    assert not {"partition", "partition_divergence"} & {*table}
    assert "ivergence" not in summary(table, ABOUT)["md"] + partitions_note(runs, cell_names(runs))


NOTHING = pd.DataFrame()


def test_a_record_has_a_partition_if_and_only_if_its_cell_says_so(trained):
    (skewed, has), _, (iid, lacks) = trained
    assert not list(broken_in_run(lacks, iid))
    (found,) = broken_in_run(lacks.model_copy(update={"partition": has.partition}), iid)
    assert found.what == "it has a partition, and its cell says iid"
    (found,) = broken_in_run(has.model_copy(update={"partition": None}), skewed)
    assert found.what == "it has no partition, and its cell says dirichlet 0.1"


@pytest.mark.parametrize("partition", [Dirichlet(0.1), "natural"])
def test_a_worker_alone_has_its_own_part_also_where_the_data_are_not_there(partition, laid_out, tmp_path):
    cell = cell_of("ssgd", partition)
    assert MirroredCell(cell, laid_out, Cluster(8)).task.recipe.partition == partition
    without = MirroredCell(cell, tmp_path, Cluster(8))
    assert without.task.recipe.partition == "iid"
    steps = {made.run(0, 2).total_steps for made in (MirroredCell(cell, laid_out, Cluster(8)), without)}
    assert len(steps) == 1
