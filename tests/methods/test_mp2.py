"""MP2: what is pushed, what is predicted, and how the predictor is trained."""

from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests import small
from tests.methods.test_mp2_preparation import OPTIONS, drawn_prefixes, prepare
from thinwire import plugins
from thinwire.base.options import resolve
from thinwire.records import checkpoint

Mp2 = plugins.get("method", "mp2").load()
package = import_module("thinwire_methods.mp2")
layers = import_module("thinwire_methods.mp2.layers")
Predictor = import_module("thinwire_methods.mp2.predictor").Predictor


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


def run_of(workers=4, options=(), **changes):
    task = small.task(workers, build_model=changes.pop("build_model", small.Plain), **changes)
    return small.trainer(task, "mp2", **(OPTIONS | dict(options)))


PREFIX = 4 * 10 + 6 * 37  # the first two convolutions
WHOLE = sum(p.numel() for p in small.Plain().parameters())


@pytest.mark.parametrize(("options", "push_bytes"), [(OPTIONS, 4), ({"preset": "published"}, 8)])
def test_a_step_pushes_the_prefix_and_pulls_the_model(options, push_bytes):
    """As published, the push has 64 bits; the weights stay in those of the model."""
    run = small.trainer(small.task(3, build_model=small.Plain, dtype=torch.float32), "mp2", **options)
    run.train(until=4)
    for worker in run.workers:
        total = worker.ledger.total()
        assert (total.payload_push, total.payload_pull) == (push_bytes * 4 * PREFIX, 4 * 4 * WHOLE)
        assert {weight.dtype for weight in worker.run.weights} == {torch.float32}


def test_only_the_pushed_layers_have_gradients_and_an_optimizer():
    run = run_of()
    run.train(until=2)
    for worker in run.workers:
        computed = {name for name, p in worker.model.named_parameters() if p.grad is not None}
        assert computed == {"first.weight", "first.bias", "second.weight", "second.bias"}
        groups = worker.run.optimizer.param_groups
        assert sum(p.numel() for group in groups for p in group["params"]) == PREFIX


def test_the_other_gradients_are_the_same_to_the_bit(monkeypatch):
    changes = {"dtype": torch.float32, "optimizer": {"name": "adam", "lr": 0.01}}
    run = run_of(**changes)
    run.train()
    monkeypatch.setattr(Mp2, "wants_gradient", lambda self, param: True)
    every = run_of(**changes)
    every.train()
    assert all(p.grad is not None for p in every.workers[0].model.parameters())
    assert small.everything(run) == small.everything(every)


def test_a_constant_predictor_is_the_trained_one_that_sees_the_mean_of_the_recorded_prefixes(tmp_path):
    """So the two differ in nothing but what their predictor sees: neither in its weights nor in a byte."""
    folders = {name: tmp_path / name for name in ("trained", "constant")}
    task = small.task(4, build_model=small.Plain)
    traffic = [prepare(task, folder, OPTIONS | {"predictor": name}) for name, folder in folders.items()]
    assert traffic[0] == traffic[1]
    one, other = ((folder / "predictor.safetensors").read_bytes() for folder in folders.values())
    assert one == other
    assert not (folders["trained"] / "mean_prefix.safetensors").exists()
    mean = torch.cat(drawn_prefixes(folders["constant"])).mean(0)
    kept = load_file(folders["constant"] / "mean_prefix.safetensors")["prefix"]
    torch.testing.assert_close(kept, mean, rtol=0, atol=1e-12)
    runs = [run_of(options={"predictor": name}) for name in folders]
    for run in runs:
        run.train(until=4)
    ledgers = [[worker.ledger.state() for worker in run.workers] for run in runs]
    assert ledgers[0] == ledgers[1]


def test_the_mean_of_equal_prefixes_is_that_prefix_to_the_bit():
    server = package.CompletingServer(None, [], torch.float32, constant=False)
    prefix = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    for workers in range(2, 9):
        assert torch.equal(server.update([{"weights": prefix}] * workers)["weights"], prefix)


class Shuffled(small.Plain):
    def stages(self):
        return [[self.first], [self.third], [self.second], [self.linear]]


class Unstaged(small.Plain):
    def stages(self):
        return [[], [], [self.first, self.second], [self.third], [self.linear]]


class TwoStages(small.Plain):
    def stages(self):
        return [[self.first, self.second], [self.third, self.linear]]


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
        (TwoStages, "first 2 stages are all of it, so nothing is left to predict"),
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
