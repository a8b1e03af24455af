"""MP2: what is pushed, what is predicted, and how the predictor is trained."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests import small
from thinwire import checkpoint, plugins, record, seeds
from thinwire.errors import CannotWrite, UserError
from thinwire.options import resolve
from thinwire.task import initial_model
from thinwire.train.preparation_job import PreparationJob
from thinwire.train.trainer import Trainer

Mp2 = plugins.get("method", "mp2").load()
package = import_module("thinwire_methods.mp2")
layers = import_module("thinwire_methods.mp2.layers")
record_prefixes = import_module("thinwire_methods.mp2.record_prefixes")
predictor_training = import_module("thinwire_methods.mp2.predictor_training")
Predictor = import_module("thinwire_methods.mp2.predictor").Predictor
OPTIONS = {"predictor_epochs": 3, "bsp_workers": 2}
EVERYTHING = 1000


def build(name, shape=(3, 32, 32), classes=10, **options):
    model = plugins.get("model", name).load()
    return model(resolve(model, options), shape, classes)


def count(shapes):
    return sum(size.numel() for layer in shapes for size in layer)


# Model, parameters of the prefix and of the predictor, from the authors' code.
TARGETS = [
    ("mp2_vgg", {}, (3, 32, 32), 260_160, 2_720_126),
    ("mp2_resnet", {"depth": 18}, (3, 32, 32), 185_664, 277_420),
    ("mp2_resnet", {"depth": 34}, (3, 32, 32), 351_872, None),
    ("mp2_alexnet", {}, (3, 32, 32), 617_344, 3_101_206),
    ("lenet", {}, (1, 28, 28), 2_572, 2_846_780),
]


@pytest.mark.parametrize(("name", "options", "shape", "prefix", "predictor"), TARGETS)
def test_prefix_and_predictor_have_the_published_sizes(name, options, shape, prefix, predictor):
    model = build(name, shape, **options)
    pushed, predicted = map(layers.shapes_of, layers.split(model, 2))
    assert count(pushed) == prefix
    assert count(pushed) + count(predicted) == sum(p.numel() for p in model.parameters())
    made = Predictor(prefix, predicted).initialise()
    assert made.folded == (prefix % 64 == 0)
    assert predictor is None or sum(p.numel() for p in made.parameters()) == predictor
    assert sum(map(len, made(torch.randn(prefix)))) == count(predicted)


def test_the_authors_prefix_of_resnet_50_ends_one_convolution_earlier():
    pushed, _ = layers.split(build("mp2_resnet", depth=50), 2)
    last = [p for layer in pushed for p in layer if "resolutions.1.3.convolutions.4" in p.name]
    assert count(layers.shapes_of(pushed)) - count(layers.shapes_of([last])) == 343_104


def test_a_predicted_convolution_has_rank_1_and_depends_on_the_prefix():
    torch.manual_seed(0)
    shapes = [
        [torch.Size([16, 8, 3, 3]), torch.Size([16])],
        [torch.Size([10, 16]), torch.Size([10])],
    ]
    predictor = Predictor(640, shapes).initialise().double()
    one, other = predictor(torch.randn(640).double()), predictor(torch.randn(640).double())
    assert len(one[0]) == 8 * 9 * 16 + 16
    # These are no multiple of 64: of a matrix of 64 rows of 19, 61 rows are whole.
    singular = torch.linalg.svdvals(one[0][: 61 * 19].view(61, 19))
    assert singular[1] < 1e-12 * singular[0]
    assert not torch.allclose(one[0], other[0])


def test_values_of_a_layer_are_in_the_authors_order():
    weight = torch.arange(2 * 3 * 2 * 2.0).view(2, 3, 2, 2)
    vector = layers.flatten([weight, torch.tensor([100.0, 101.0])])
    expected = [weight[o, i, y, x] for y in range(2) for x in range(2) for i in range(3) for o in range(2)]
    assert vector.tolist() == [*expected, 100, 101]
    back = layers.unflatten(vector, [weight.shape, torch.Size([2])])
    assert torch.equal(back[0], weight)
    assert back[1].tolist() == [100, 101]
    linear = torch.arange(6.0).view(2, 3)
    assert layers.flatten([linear]).tolist() == linear.T.flatten().tolist()
    assert torch.equal(layers.unflatten(layers.flatten([linear]), [linear.shape])[0], linear)


def plain():
    return small.Plain(dropout=0.0)


def run_of(workers=4, options=(), **changes):
    task = small.task(workers, build_model=changes.pop("build_model", small.Plain), **changes)
    return small.trainer(task, "mp2", **(OPTIONS | dict(options)))


def test_a_step_pushes_the_prefix_and_pulls_the_model():
    run = run_of(workers=3, dtype=torch.float32)
    run.train(until=4)
    prefix = 4 * 10 + 6 * 37
    whole = sum(p.numel() for p in small.Plain().parameters())
    for worker in run.workers:
        total = worker.ledger.total()
        assert (total.payload_push, total.payload_pull) == (4 * 4 * prefix, 4 * 4 * whole)


def test_only_the_pushed_layers_have_an_optimizer():
    run = run_of()
    run.train(until=2)
    sizes = [p.numel() for group in run.workers[1].run.optimizer.param_groups for p in group["params"]]
    assert sum(sizes) == 4 * 10 + 6 * 37


def test_gradients_of_predicted_layers_are_not_computed():
    run = run_of()
    run.train(until=2)
    for worker in run.workers:
        computed = {name for name, p in worker.model.named_parameters() if p.grad is not None}
        assert computed == {"first.weight", "first.bias", "second.weight", "second.bias"}


@pytest.mark.parametrize("build_model", [small.Plain, lambda: build("mp2_resnet", (1, 8, 8), width=4)])
def test_the_other_gradients_are_the_same_to_the_bit(build_model, monkeypatch):
    changes = {"build_model": build_model, "dtype": torch.float32, "optimizer": {"name": "adam", "lr": 0.01}}
    run = run_of(**changes)
    run.train()
    monkeypatch.setattr(Mp2, "wants_gradient", lambda self, param: True)
    every = run_of(**changes)
    every.train()
    assert all(p.grad is not None for p in every.workers[0].model.parameters())
    assert small.everything(run) == small.everything(every)


def predicted_layers(run):
    """The later layers, as one vector."""
    _, predicted = layers.split(run.workers[0].model, 2)
    return layers.flatten_all([[p.tensor.data.clone() for p in layer] for layer in predicted])


def test_a_constant_predictor_answers_with_what_it_predicts_from_the_mean_of_the_recorded_prefixes(tmp_path):
    run = run_of(options={"predictor": "constant"})
    method, seen = run.workers[0].method, []
    run.train(after_step=lambda run: seen.append(predicted_layers(run)))
    assert all(torch.equal(one, seen[0]) for one in seen)
    task = small.task(4, build_model=small.Plain)
    prepare(task, tmp_path / "a", OPTIONS | {"predictor": "constant"})
    files = sorted((tmp_path / "a" / "scratch" / "prefixes").glob("*.safetensors"))
    mean = torch.cat([load_file(file)["prefixes"] for file in files]).mean(0)
    shapes = layers.shapes_of(layers.split(run.workers[0].model, 2)[1])
    predictor = Predictor(len(mean), shapes).initialise().double()
    predictor.load_state_dict(load_file(method.prepared / "predictor.safetensors"))
    torch.testing.assert_close(seen[0], torch.cat(predictor(mean)), rtol=0, atol=1e-12)


def test_the_constant_predictor_is_the_one_that_mp2_has(tmp_path):
    """So the two differ in nothing but what their predictor sees."""
    task = small.task(4, build_model=small.Plain)
    trained, constant = (tmp_path / name for name in ("trained", "constant"))
    options = ({"predictor": folder.name} for folder in (trained, constant))
    traffic = [prepare(task, folder, OPTIONS | own) for folder, own in zip((trained, constant), options)]
    assert traffic[0] == traffic[1]
    file = "predictor.safetensors"
    assert (trained / file).read_bytes() == (constant / file).read_bytes()
    assert not (trained / "mean_prefix.safetensors").exists()


def test_the_bytes_of_a_constant_predictor_are_those_of_mp2():
    runs = [run_of(options={"predictor": predictor}) for predictor in ("trained", "constant")]
    for run in runs:
        run.train(until=4)
    one, other = ([worker.ledger.state() for worker in run.workers] for run in runs)
    assert one == other


def test_as_published_the_push_has_64_bits_and_the_pull_those_of_the_model():
    task = small.task(4, build_model=small.Plain, dtype=torch.float32)
    run = small.trainer(task, "mp2", preset="published")
    run.train(until=4)
    prefix = 4 * 10 + 6 * 37
    whole = sum(p.numel() for p in small.Plain().parameters())
    for worker in run.workers:
        total = worker.ledger.total()
        assert (total.payload_push, total.payload_pull) == (8 * 4 * prefix, 4 * 4 * whole)
        assert {weight.dtype for weight in worker.run.weights} == {torch.float32}


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
    model = build(name, classes=classes, **options)
    with_authors_constants = import_module("thinwire_methods.mp2.options").with_authors_constants
    found = with_authors_constants(resolve(Mp2, {"preset": "published"}), name, model, classes)
    names = ("predictor_epochs", "prefixes_per_batch", "images_share", "bsp_workers")
    assert tuple(getattr(found, name) for name in names) == expected


@pytest.mark.parametrize(("model", "epochs"), [("lenet", 10), ("mp2_alexnet", 5)])
def test_as_published_the_predictor_is_trained_with_them_and_the_dense_run_has_32_bits(
    model, epochs, tmp_path
):
    task = task_of(epochs=1, dtype=torch.float32)
    traffic = prepare(task, tmp_path / "a", {"preset": "published"}, model)
    assert len((tmp_path / "a" / "predictor.csv").read_text().splitlines()) == 1 + epochs
    assert traffic.payload_push_bytes == traffic.payload_pull_bytes


@pytest.mark.parametrize("workers", [2, 3, 5, 6, 7, 8])
def test_the_mean_of_equal_prefixes_is_that_prefix_to_the_bit(workers):
    server = package.CompletingServer(None, [], torch.float32, constant=False)
    prefix = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(server.update([{"weights": prefix}] * workers)["weights"], prefix)


def prepare(task, folder, options=OPTIONS, model="none"):
    """Make the preparation in `folder`, and return its traffic."""
    folder.mkdir(exist_ok=True)
    spent = record.Cost(seconds=0.0, traffic=record.Traffic.sum([]))
    job = PreparationJob(task, model, folder, spent, lambda cost: None, 0.0)
    Mp2.prepare(resolve(Mp2, options), job, folder)
    return job.cost().traffic


def task_of(**changes):
    return small.task(
        4,
        build_model=small.Plain,
        **{"data": small.digits(400), "epochs": 4, "optimizer": {"name": "adam", "lr": 0.01}, "mixup": 1.0}
        | {"schedule": {"name": "constant"}}
        | changes,
    )


def test_a_preparation_costs_a_dense_run(tmp_path):
    traffic = prepare(task_of(), tmp_path / "a")
    steps = 4 * (360 // 24)  # a tenth of the images is held out
    assert traffic.payload_push_bytes == traffic.payload_pull_bytes
    assert traffic.payload_push_bytes == 8 * steps * sum(p.numel() for p in small.Plain().parameters())


def test_a_preparation_never_sees_the_test_set(tmp_path):
    data = small.digits(400)
    other = replace(data, test_images=255 - data.test_images, test_labels=data.test_labels.flip(0))
    for name, used in (("a", data), ("b", other)):
        prepare(task_of(data=used), tmp_path / name)
    files = [tmp_path / name / "predictor.safetensors" for name in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("where", ["dense run", "predictor"])
def test_an_interrupted_preparation_goes_on_to_the_same_bits(where, tmp_path, monkeypatch):
    whole = prepare(task_of(), tmp_path / "whole")
    killed = []
    if where == "dense run":
        train = Trainer._train_step

        def step(self):
            if self.step == 37 and not killed:
                killed.append(self.step)
                raise Killed
            train(self)

        monkeypatch.setattr(Trainer, "_train_step", step)
    else:
        an_epoch = predictor_training.Training.train_an_epoch

        def epoch(self, prefixes):
            if self.epoch == 2 and not killed:
                killed.append(self.epoch)
                raise Killed
            an_epoch(self, prefixes)

        monkeypatch.setattr(predictor_training.Training, "train_an_epoch", epoch)
    with pytest.raises(Killed):
        prepare(task_of(), tmp_path / "again")
    steps = []
    after = Trainer._train_step
    monkeypatch.setattr(Trainer, "_train_step", lambda self: (steps.append(self.step), after(self))[1])
    again = prepare(task_of(), tmp_path / "again")
    assert steps == (list(range(30, 60)) if where == "dense run" else [])  # from the end of an epoch
    assert again == whole
    for name in ("predictor.safetensors", "predictor.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_prefixes_are_drawn_from_every_epoch_without_repetition(tmp_path):
    prepare(task_of(), tmp_path / "a", OPTIONS | {"prefixes_per_epoch": 5})
    files = sorted((tmp_path / "a" / "scratch" / "prefixes").glob("*.safetensors"))
    drawn = [load_file(file)["prefixes"] for file in files]
    assert [len(prefixes) for prefixes in drawn] == [5] * 4
    assert len(torch.cat(drawn).unique(dim=0)) == 20
    chosen = record_prefixes._chosen
    assert chosen(1, 0, 50, 15) != chosen(1, 1, 50, 15)
    assert len(chosen(1, 0, 50, 15)) == 15
    assert chosen(1, 0, 4, 15) == {0, 1, 2, 3}


def test_the_predictor_that_is_kept_is_the_best_on_held_out_images_and_far_above_chance(tmp_path):
    """On the last prefix of the dense run it is evaluated again."""
    task = task_of(data=small.digits(1200), mixup=0.0, epochs=6)
    prepare(task, tmp_path / "a", OPTIONS | {"predictor_epochs": 12, "images_per_step": 60})
    rows = [line.split(",") for line in (tmp_path / "a" / "predictor.csv").read_text().splitlines()[1:]]
    assert len(rows) == 12
    best = max(float(accuracy) for _, _, accuracy in rows)
    assert best > 60
    job = PreparationJob(
        task, "none", tmp_path / "a", record.Cost(seconds=0.0, traffic=record.Traffic.sum([])), print, 0.0
    )
    kept = predictor_training.Training(resolve(Mp2, OPTIONS), job)
    kept.predictor.load_state_dict(load_file(tmp_path / "a" / "predictor.safetensors"))
    last = sorted((tmp_path / "a" / "scratch" / "prefixes").glob("*.safetensors"))[-1]
    assert kept.accuracy(load_file(last)["prefixes"][-1]) == pytest.approx(best, abs=1e-3)


def test_the_predictor_sees_the_share_of_each_class_that_was_asked_for(tmp_path):
    task = task_of(data=small.digits(1000), mixup=0.0)
    job = PreparationJob(
        task, "none", tmp_path, record.Cost(seconds=0.0, traffic=record.Traffic.sum([])), print, 0.0
    )
    made = predictor_training.Training(
        resolve(Mp2, OPTIONS | {"images_share": 0.5, "images_per_step": 40}), job
    )
    batches = list(made.batches())
    seen = torch.cat([labels for _, labels in batches])
    every = job.task.data.train_labels
    assert seen.bincount().tolist() == [round(0.5 * n) for n in every.bincount().tolist()]
    assert {len(labels) for _, labels in batches[:-1]} == {40}
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


def training_of(tmp_path, task, **options):
    nothing = record.Cost(seconds=0.0, traffic=record.Traffic.sum([]))
    job = PreparationJob(task, "none", tmp_path, nothing, print, 0.0)
    return predictor_training.Training(resolve(Mp2, OPTIONS | options), job)


def prefixes_of(count):
    size = 4 * 10 + 6 * 37
    return Listed(
        0.1 * torch.randn(count, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    )


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
    model = initial_model(task)
    rest = other.predictor(prefix)
    tensors = [
        t
        for v, s in zip([prefix, *rest], [None, *layers.shapes_of(other.layers[1])])
        for t in (
            layers.unflatten_all(prefix, layers.shapes_of(other.layers[0]))
            if s is None
            else layers.unflatten(v, s)
        )
    ]
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
    known = {tuple(image.flatten().tolist()) for image in plain.normalise(plain.data.train_images[:])}
    seen = torch.cat([images for images, _ in plain.batches()])
    assert all(tuple(image.flatten().tolist()) in known for image in seen)
    seen = torch.cat([images for images, _ in moved.batches()])
    assert sum(tuple(image.flatten().tolist()) in known for image in seen) < 0.5 * len(seen)


def test_a_tiny_share_is_one_image_of_each_class(tmp_path):
    made = training_of(tmp_path, task_of(data=small.digits(400), mixup=0.0), images_share=1e-6)
    labels = torch.cat([labels for _, labels in made.batches()])
    assert sorted(labels.tolist()) == list(range(10))


def test_the_dense_run_has_the_workers_asked_for_and_draws_with_the_runs_seed(tmp_path, monkeypatch):
    seen = []
    train = PreparationJob.train
    monkeypatch.setattr(
        PreparationJob,
        "train",
        lambda self, task, *a: (seen.append(task.cluster.workers), train(self, task, *a))[1],
    )
    for seed in (5, 6):
        prepare(task_of(seed=seed, epochs=1), tmp_path / str(seed), OPTIONS | {"bsp_workers": 3})
    assert seen == [3, 3]
    assert record_prefixes._chosen(5, 0, 50, 15) != record_prefixes._chosen(6, 0, 50, 15)
    with pytest.raises(UserError, match="cannot be shared evenly by 5 workers: choose another bsp_workers"):
        prepare(task_of(), tmp_path / "uneven", OPTIONS | {"bsp_workers": 5})


def test_a_full_disk_is_not_the_methods_failure(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(CannotWrite, match="No space left on device"):
        prepare(task_of(), tmp_path / "a")


class Shuffled(small.Plain):
    def stages(self):
        return [[self.first], [self.third], [self.second], [self.linear]]


class Unstaged(small.Plain):
    def stages(self):
        return [[], [], [self.first, self.second], [self.third], [self.linear]]


class NormedEarly(small.Plain):
    """Its normalisation is pushed, and only convolutions and linear layers are predicted."""

    def __init__(self):
        super().__init__()
        self.second = torch.nn.Sequential(torch.nn.Conv2d(4, 6, 3, stride=2), torch.nn.GroupNorm(2, 6))


def test_a_normalisation_layer_may_be_pushed():
    run = run_of(build_model=NormedEarly)
    run.train(until=3)
    for worker in run.workers:
        vector = layers.flatten_all(worker.method.pushed)
        assert len(vector) == 4 * 10 + 6 * 37 + 12
        back = layers.unflatten_all(vector, worker.method.shapes[:3])
        assert all(
            torch.equal(a, b) for a, b in zip(back, (t for layer in worker.method.pushed for t in layer))
        )


class Normed(small.Plain):
    def __init__(self):
        super().__init__()
        self.third = torch.nn.Sequential(torch.nn.Conv2d(6, 8, 2), torch.nn.GroupNorm(2, 8))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (small.Net, "does not say how it splits into stages"),
        (lambda: build("cnn", (1, 8, 8), width=4), None),
        (lambda: build("resnet", (1, 8, 8), depth=8, width=4), "batch norm"),
        (Normed, "third.1.bias is of neither"),
        (Shuffled, "stages do not come in the order of its layers"),
        (Unstaged, "first 2 stages have no parameters to push"),
    ],
)
def test_a_model_that_it_cannot_predict_is_skipped_with_a_reason_and_prepares_nothing(
    model, reason, tmp_path
):
    task = small.task(2, build_model=model)
    found = small.skip(task, Mp2, **OPTIONS)
    if reason is None:
        assert found is None
        return
    assert reason in found
    prepare(task, tmp_path / "a")
    assert not [path for path in Path(tmp_path / "a").rglob("*") if path.is_file()]


def test_a_predictor_for_other_classes_is_refused(tmp_path):
    """The preparation of a data set with 100 classes cannot serve one with 10."""
    prefix, shapes = 640, [[torch.Size([100, 20]), torch.Size([100])]]
    checkpoint.write_tensors(
        tmp_path / "predictor.safetensors", Predictor(prefix, shapes).initialise().state_dict()
    )
    fitting = package.CompletingServer(tmp_path, shapes, torch.float32, constant=False)
    fitting.load(torch.zeros(prefix))
    server = package.CompletingServer(
        tmp_path, [[torch.Size([10, 20]), torch.Size([10])]], torch.float32, constant=False
    )
    with pytest.raises(
        ValueError, match="its predictor was made for layers of other shapes: in prepare_from"
    ):
        server.load(torch.zeros(prefix))
