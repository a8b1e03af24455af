"""MP2's preparation: the dense run, the prefixes that are drawn from it, and how the predictor is trained."""

from dataclasses import replace
from importlib import import_module

import pytest
import torch
from safetensors.torch import load_file

from tests import small
from thinwire import plugins
from thinwire.api.run import initial_model
from thinwire.base import seeds
from thinwire.base.errors import CannotWrite, UserError
from thinwire.base.options import resolve
from thinwire.records import checkpoint
from thinwire.train.preparation import PreparationJob
from thinwire.train.trainer import Trainer

Mp2 = plugins.get("method", "mp2").load()
layers = import_module("thinwire_methods.mp2.layers")
chosen = import_module("thinwire_methods.mp2.record_prefixes")._chosen
Training = import_module("thinwire_methods.mp2.predictor_training").Training
with_authors_constants = import_module("thinwire_methods.mp2.options").with_authors_constants
OPTIONS = {"predictor_epochs": 3, "bsp_workers": 2}


def prepare(task, folder, options=OPTIONS, model="none"):
    """Make the preparation in `folder`, and return its traffic."""
    job = small.preparation_job(task, folder, model, every=0.0)
    Mp2.prepare(resolve(Mp2, options), job, folder)
    return job.cost().traffic


def drawn_prefixes(folder):
    """The prefixes of each epoch of the dense run."""
    files = sorted((folder / "scratch" / "prefixes").glob("*.safetensors"))
    return [load_file(file)["prefixes"] for file in files]


def training_of(tmp_path, task, **options):
    return Training(resolve(Mp2, OPTIONS | options), small.preparation_job(task, tmp_path))


def task_of(**changes):
    return small.task(
        4,
        build_model=small.Plain,
        **{"data": small.digits(400), "epochs": 4, "optimizer": {"name": "adam", "lr": 0.01}, "mixup": 1.0}
        | {"schedule": {"name": "constant"}}
        | changes,
    )


# The model, its options, classes, and of the authors: epochs, prefixes a batch, share of images, workers.
PUBLISHED = [
    ("mp2_vgg", {}, 10, (30, 25, 0.25, 8)),
    ("mp2_resnet", {"depth": 18}, 10, (30, 200, 0.1, 8)),
    ("mp2_resnet", {"depth": 18}, 100, (30, 25, 0.25, 8)),
    ("mp2_resnet", {"depth": 34}, 10, (30, 25, 0.25, 8)),
    ("mp2_alexnet", {}, 10, (5, 25, 0.25, 4)),
    ("lenet", {"padding": 2}, 10, (10, 50, 1.0, 8)),
    ("cnn", {}, 10, (30, 25, 0.25, 8)),
]


@pytest.mark.parametrize(("name", "options", "classes", "expected"), PUBLISHED)
def test_as_published_the_preparation_has_the_authors_constants(name, options, classes, expected):
    plugin = plugins.get("model", name).load()
    model = plugin(resolve(plugin, options), (3, 32, 32), classes)
    found = with_authors_constants(resolve(Mp2, {"preset": "published"}), name, model, classes)
    names = ("predictor_epochs", "prefixes_per_batch", "images_share", "bsp_workers")
    assert tuple(getattr(found, name) for name in names) == expected


def test_as_published_the_predictor_is_trained_with_them_and_the_dense_run_has_32_bits(tmp_path):
    task = task_of(epochs=1, dtype=torch.float32)
    traffic = prepare(task, tmp_path / "a", {"preset": "published"}, "mp2_alexnet")
    assert len((tmp_path / "a" / "predictor.csv").read_text().splitlines()) == 1 + 5
    assert traffic.payload_push_bytes == traffic.payload_pull_bytes


def test_a_preparation_costs_a_dense_run(tmp_path):
    traffic = prepare(task_of(), tmp_path / "a")
    steps = 4 * (360 // 24)  # a tenth of the images is held out
    assert traffic.payload_push_bytes == traffic.payload_pull_bytes
    assert traffic.payload_push_bytes == 8 * steps * sum(p.numel() for p in small.Plain().parameters())


def test_a_preparation_never_sees_the_test_set(tmp_path):
    data = small.digits(400)
    other = replace(data, test_inputs=255 - data.test_inputs, test_labels=data.test_labels.flip(0))
    for name, used in (("a", data), ("b", other)):
        prepare(task_of(data=used), tmp_path / name)
    files = [tmp_path / name / "predictor.safetensors" for name in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()


class Killed(BaseException):
    pass


def kill_once(monkeypatch, owner, name, when):
    """Let this function raise at its first call of which `when` is true."""
    go, killed = getattr(owner, name), []

    def goes(self, *arguments):
        if when(self) and not killed:
            killed.append(self)
            raise Killed
        return go(self, *arguments)

    monkeypatch.setattr(owner, name, goes)


@pytest.mark.parametrize(
    ("owner", "name", "when", "steps"),
    [
        (Trainer, "_train_step", lambda run: run.step == 37, range(30, 60)),  # from the end of an epoch
        (Training, "train_an_epoch", lambda made: made.epoch == 2, []),
    ],
    ids=["dense run", "predictor"],
)
def test_an_interrupted_preparation_goes_on_to_the_same_bits(owner, name, when, steps, tmp_path, monkeypatch):
    whole = prepare(task_of(), tmp_path / "whole")
    kill_once(monkeypatch, owner, name, when)
    with pytest.raises(Killed):
        prepare(task_of(), tmp_path / "again")
    taken, step = [], Trainer._train_step
    monkeypatch.setattr(Trainer, "_train_step", lambda self: (taken.append(self.step), step(self))[1])
    again = prepare(task_of(), tmp_path / "again")
    assert taken == list(steps)
    assert again == whole
    for file in ("predictor.safetensors", "predictor.csv"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_prefixes_are_drawn_from_every_epoch_without_repetition(tmp_path):
    prepare(task_of(), tmp_path / "a", OPTIONS | {"prefixes_per_epoch": 5})
    drawn = drawn_prefixes(tmp_path / "a")
    assert [len(prefixes) for prefixes in drawn] == [5] * 4
    assert len(torch.cat(drawn).unique(dim=0)) == 20
    assert chosen(1, 0, 50, 15) != chosen(1, 1, 50, 15)
    assert len(chosen(1, 0, 50, 15)) == 15
    assert chosen(1, 0, 4, 15) == {0, 1, 2, 3}


def test_the_predictor_that_is_kept_is_the_best_on_held_out_images_and_far_above_chance(tmp_path):
    """On the last prefix of the dense run it is evaluated again."""
    task = task_of(data=small.digits(1200), mixup=0.0, epochs=6)
    prepare(task, tmp_path, OPTIONS | {"predictor_epochs": 12, "images_per_step": 60})
    rows = [line.split(",") for line in (tmp_path / "predictor.csv").read_text().splitlines()[1:]]
    assert len(rows) == 12
    best = max(float(accuracy) for _, _, accuracy in rows)
    assert best > 60
    kept = training_of(tmp_path, task)
    kept.predictor.load_state_dict(load_file(tmp_path / "predictor.safetensors"))
    assert kept.accuracy(drawn_prefixes(tmp_path)[-1][-1]) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("share", [0.5, 1e-6])
def test_the_predictor_sees_the_share_of_each_class_that_was_asked_for_and_at_least_one(share, tmp_path):
    task = task_of(data=small.digits(1000), mixup=0.0)
    made = training_of(tmp_path, task, images_share=share, images_per_step=40)
    batches = list(made.batches())
    seen = torch.cat([labels for _, labels in batches])
    every = small.preparation_job(task, tmp_path).task.data.train_labels  # a tenth is held out
    assert seen.bincount().tolist() == [max(1, round(share * n)) for n in every.bincount().tolist()]
    assert {len(labels) for _, labels in batches[:-1]} <= {40}
    assert len(torch.cat([images for images, _ in batches]).flatten(1).unique(dim=0)) > 0.95 * len(seen)


class Listed:
    """Prefixes that note who asked for them."""

    def __init__(self, prefixes):
        self.prefixes, self.asked = prefixes, []

    def __len__(self):
        return len(self.prefixes)

    def __getitem__(self, number):
        self.asked.append(number)
        return self.prefixes[number]


def prefixes_of(count):
    stream = torch.Generator().manual_seed(1)
    return Listed(0.1 * torch.randn(count, 4 * 10 + 6 * 37, generator=stream, dtype=torch.float64))


def test_one_prefix_of_each_batch_is_drawn_at_random(tmp_path):
    made = training_of(tmp_path, task_of(data=small.digits(60), mixup=0.0), prefixes_per_batch=5)
    listed = prefixes_of(33)
    asked = []
    for _ in range(30):
        made.train_an_epoch(listed)
        *epoch, last = listed.asked
        assert last == 32  # for the accuracy
        assert len(set(epoch)) == len(epoch) == 7
        asked.append(tuple(epoch))
        listed.asked.clear()
    assert len(set(asked)) == 30
    assert {number for epoch in asked for number in epoch} == set(range(33))
    # By lot: not always the first of its batch, in the order in which the epoch shuffles them.
    firsts = 0
    for epoch, own in enumerate(asked):
        stream = torch.Generator().manual_seed(seeds.derive(5, "predictor", epoch))
        order = torch.randperm(33, generator=stream)
        firsts += sum(number == int(batch[0]) for number, batch in zip(own, order.split(5)))
    assert firsts < 0.5 * 30 * 7


def test_the_predictor_takes_the_step_that_a_loop_by_hand_takes(tmp_path):
    """Adam's first step at the rate asked for, on the loss of the completed model, for mixed images."""
    task = task_of(data=small.digits(60), mixup=1.0)
    options = {"images_per_step": 500, "predictor_lr": 2e-3, "prefixes_per_batch": 50}
    made, other = (training_of(tmp_path, task, **options) for _ in "ab")
    listed = prefixes_of(4)
    made.train_an_epoch(listed)
    stream = torch.Generator().manual_seed(seeds.derive(5, "predictor", 0))
    other.stream = stream
    torch.randperm(4, generator=stream)
    torch.randint(4, (1,), generator=stream)
    torch.manual_seed(seeds.derive(5, "predictor", 0))  # dropout
    ((images, shares),) = list(other.batches())
    assert shares.shape == (len(images), 10)
    assert bool(((shares > 0) & (shares < 1)).any())
    (number, _) = listed.asked
    prefix = listed.prefixes[number]
    pushed, later = map(layers.shapes_of, other.layers)
    tensors = layers.unflatten_all(prefix, pushed)
    for vector, shapes in zip(other.predictor(prefix), later, strict=True):
        tensors = [*tensors, *layers.unflatten(vector, shapes)]
    model = initial_model(task)
    names = [name for name, _ in model.named_parameters()]
    logits = torch.func.functional_call(model, dict(zip(names, tensors)), (images,))
    (-(shares * logits.log_softmax(1)).sum(1).mean()).backward()
    for mine, theirs in zip(made.predictor.parameters(), other.predictor.parameters()):
        expected = theirs.detach() - 2e-3 * theirs.grad / (theirs.grad.abs() + 1e-8)
        torch.testing.assert_close(mine.detach(), expected, rtol=0, atol=1e-9)


def test_the_predictor_sees_images_as_the_recipe_shows_them(tmp_path):
    """Crops and flips included, if the data set has them."""
    plain, moved = (
        training_of(tmp_path, task_of(data=small.digits(100, pad=pad), mixup=0.0)) for pad in (0, 2)
    )
    known = {tuple(image.flatten().tolist()) for image in plain.normalise(plain.data.train_inputs[:])}
    seen = torch.cat([images for images, _ in plain.batches()])
    assert all(tuple(image.flatten().tolist()) in known for image in seen)
    seen = torch.cat([images for images, _ in moved.batches()])
    assert sum(tuple(image.flatten().tolist()) in known for image in seen) < 0.5 * len(seen)


def test_the_dense_run_has_the_workers_asked_for_and_draws_with_the_runs_seed(tmp_path, monkeypatch):
    seen, train = [], PreparationJob.train

    def look(self, task, *arguments):
        seen.append(task.cluster.workers)
        return train(self, task, *arguments)

    monkeypatch.setattr(PreparationJob, "train", look)
    prepare(task_of(epochs=1), tmp_path / "three", OPTIONS | {"bsp_workers": 3})
    assert seen == [3]
    assert chosen(5, 0, 50, 15) != chosen(6, 0, 50, 15)
    with pytest.raises(UserError, match="cannot be shared evenly by 5 workers: choose another bsp_workers"):
        prepare(task_of(), tmp_path / "uneven", OPTIONS | {"bsp_workers": 5})


def test_a_full_disk_is_not_the_methods_failure(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(CannotWrite, match="No space left on device"):
        prepare(task_of(), tmp_path / "a")
