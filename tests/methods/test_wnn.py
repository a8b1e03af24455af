"""WNN: what a forecaster forecasts, when the weights jump, and how forecasters are trained."""

from importlib import import_module

import pytest
import torch
from safetensors.torch import save_file

from tests import small
from thinwire import plugins
from thinwire.base import seeds
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.train.preparation import PreparationJob

Wnn = plugins.get("method", "wnn").load()
forecaster = import_module("thinwire_methods.wnn.forecaster")
training = import_module("thinwire_methods.wnn.forecaster_training")
recorded_runs = import_module("thinwire_methods.wnn.recorded_runs")
# The small runs have five steps an epoch: a value every second step, a jump every ten.
SHORT = Wnn.short


def test_a_forecaster_has_9425_parameters():
    assert sum(p.numel() for p in forecaster.Forecaster().parameters()) == 9_425


def trained(until=None, **options):
    run = small.trainer(small.task(2), "wnn", **(SHORT | options))
    run.train(until=until)
    return run


def test_workers_stay_alike_to_the_bit_without_sending_anything_for_it():
    run, ssgd = trained(), small.trainer(small.task(2), "ssgd")
    ssgd.train()
    assert all(torch.equal(a, b) for a, b in zip(run.workers[0].run.weights, run.workers[1].run.weights))
    assert [w.ledger.total() for w in run.workers] == [w.ledger.total() for w in ssgd.workers]


def test_a_jump_counts_five_intervals():
    run = trained(until=9)
    assert run.workers[0].run.metrics["virtual_epochs"] == 9 / 5
    run.train()
    assert run.curve[-1]["method/virtual_epochs"] == (15 + 5 * 2) / 5


def job(folder, model="none", every=60.0):
    return small.preparation_job(small.task(4, dtype=torch.float32), folder, model, every)


def test_the_model_itself_is_not_learned_from_and_the_last_of_the_others_is_held_out(tmp_path):
    config = resolve(Wnn, SHORT)
    for model, expected in (
        ("none", ["cnn", "alexnet", "lenet", "resnet"]),
        ("resnet", ["cnn", "alexnet", "lenet"]),
    ):
        folders = recorded_runs.record_weights(Wnn, config, job(tmp_path / model, model))
        assert [folder.name for folder in folders] == expected


def test_a_window_is_five_values_and_the_one_five_intervals_later(tmp_path):
    """Of a tensor that counts the values, and of another kind that must not appear."""
    for epoch in range(1, 9):
        first = 2 * epoch - 2
        values = {f"0 {i}": torch.full((3, 2), float(first + i)) for i in range(2)}
        values |= {f"1 {i}": torch.full((4,), 1000.0) for i in range(2)}
        save_file(values, tmp_path / f"{epoch:06d}.safetensors")
    (tmp_path / "kinds.txt").write_text("0 conv\n1 bias")
    inputs, targets = recorded_runs.windows(tmp_path, "conv", 500, torch.Generator().manual_seed(1))
    assert len(inputs) == 6 * 7
    assert bool((inputs.diff(dim=1) == 1).all())
    assert bool((targets == inputs[:, -1] + 5).all())
    assert inputs[:, 0].unique().tolist() == list(range(7))


def test_a_forecaster_learns_what_can_be_foreseen(tmp_path):
    """Weights that decay exponentially, each at its own rate and from its own value."""
    for name, seed in (("a", 1), ("b", 2), ("held out", 3)):
        folder = tmp_path / name
        folder.mkdir()
        stream = torch.Generator().manual_seed(seed)
        goal, start = torch.randn(2, 200, generator=stream)
        rate = torch.rand(200, generator=stream) * 0.3
        values = {f"0 {i}": goal + (start - goal) * (-rate * i).exp() for i in range(20)}
        save_file(values, folder / "000001.safetensors")
        (folder / "kinds.txt").write_text("0 conv")
    config = resolve(Wnn, {"forecaster_steps": 400, "windows": 3000})
    _, line = training._train(config, job(tmp_path), [tmp_path / n for n in ("a", "b", "held out")], "conv")
    steps, error, of_no_change = map(float, line.split(","))
    assert steps == 400
    assert error < 0.25 * of_no_change


def test_an_interrupted_preparation_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    config = resolve(Wnn, SHORT)
    Wnn.prepare(config, job(tmp_path / "whole", every=0.0), tmp_path / "whole")
    recorded = []
    record_one = recorded_runs._record

    def stop(*arguments):
        if len(recorded) == 2:
            recorded.append("stopped")
            raise KeyboardInterrupt
        recorded.append(arguments[3])
        record_one(*arguments)

    monkeypatch.setattr(recorded_runs, "_record", stop)
    with pytest.raises(KeyboardInterrupt):
        Wnn.prepare(config, job(tmp_path / "again", every=0.0), tmp_path / "again")
    Wnn.prepare(config, job(tmp_path / "again", every=0.0), tmp_path / "again")
    for name in ("conv.safetensors", "linear.safetensors", "bias.safetensors", "forecasters.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_that_would_record_too_little_is_refused_in_its_first_step(tmp_path):
    config = resolve(Wnn, SHORT | {"recorded_epochs": 3})
    with pytest.raises(
        UserError, match="have 6 values of each weight, and a history with its target takes 10"
    ):
        Wnn.prepare(config, job(tmp_path / "a"), tmp_path / "a")
    assert not list((tmp_path / "a").rglob("*.safetensors"))


@pytest.mark.parametrize("model", [small.Net, small.Plain])
def test_only_a_model_without_batch_norm_jumps_at_the_very_end(model):
    run = small.trainer(small.task(2, build_model=model), "wnn", **(SHORT | {"interval_epochs": 0.6}))
    run.train()
    assert run.total_steps == 15  # the fifth value is that of the last step
    assert [w.method.memory["jumps"] for w in run.workers] == [int(model is small.Plain)] * 2


def test_the_models_that_it_prepares_from_are_declared():
    """So that an edit of one of them makes the preparation again."""
    assert set(recorded_runs.ARCHITECTURES) == set(Wnn.prepares_from_models)
    assert plugins.get("method", "wnn").literal("prepares_from_models") == Wnn.prepares_from_models
    assert plugins.get("method", "wnn").literal("prepares_for_any_epochs") is True
    assert plugins.get("method", "mp2").literal("prepares_for_any_epochs") is None


def test_the_recorded_runs_have_their_own_epochs_and_batch(tmp_path, monkeypatch):
    seen = []
    train = PreparationJob.train

    def look(self, task, *arguments):
        seen.append((task.recipe.epochs, task.recipe.batch, task.cluster.workers))
        return train(self, task, *arguments)

    monkeypatch.setattr(PreparationJob, "train", look)
    recorded_runs.record_weights(Wnn, resolve(Wnn, SHORT | {"recorded_batch": 27}), job(tmp_path / "a"))
    assert seen == [(6, 27, 1)] * 4


def recorded(folder, seed, scale=1.0):
    """A run whose convolution moves by steps of its own seed, as if it had been recorded."""
    folder.mkdir()
    stream = torch.Generator().manual_seed(seed)
    steps = scale * torch.randn(30, 40, generator=stream).cumsum(0)
    save_file({f"0 {i}": value.contiguous() for i, value in enumerate(steps)}, folder / "000001.safetensors")
    (folder / "kinds.txt").write_text("0 conv")
    return folder


def test_a_forecaster_takes_the_steps_that_a_loop_by_hand_takes(tmp_path):
    """Adam at 1e-3 on the L1 error of the clipped change, with the penalty, on windows drawn from all."""
    folders = [recorded(tmp_path / name, seed) for seed, name in enumerate("abh")]
    config = resolve(Wnn, {"forecaster_steps": 1, "windows": 1000})
    made, line = training._train(config, job(tmp_path), folders, "conv")
    seed = seeds.derive(5, "forecaster", "conv")  # of the small task's seed
    generator = torch.Generator().manual_seed(seed)
    drawn = [recorded_runs.windows(folder, "conv", 1000, generator) for folder in folders]
    torch.manual_seed(seed)
    mine = forecaster.Forecaster()
    histories, targets = (torch.cat(parts) for parts in zip(*drawn[:2]))
    chosen = torch.randint(len(histories), (1024,), generator=generator)
    h, target = histories[chosen], targets[chosen]
    spread = h.amax(1) - h.amin(1) + 1e-8
    unit = 2 * (spread + 1e-5)
    change = ((target - h[:, 4]) / unit).clamp(-1, 1)
    assert float((((target - h[:, 4]) / unit).abs() > 1).float().mean()) > 0.01  # there is something to clip
    loss = (mine((h - h[:, :1]) / unit[:, None]) - change).abs().mean()
    for stream in (mine.values, mine.differences):
        for layer in (stream.enter, stream.leave):
            loss = loss + 1e-6 * layer.weight.abs().sum() + 0.1 * layer.bias.abs().sum()
    loss.backward()
    with torch.no_grad():
        for parameter in mine.parameters():
            # Adam's first step: the rate, against the sign.
            parameter -= 1e-3 * parameter.grad / (parameter.grad.abs() + 1e-8)
    for name, value in mine.state_dict().items():
        torch.testing.assert_close(made[name], value, rtol=1e-4, atol=1e-6)
    held, held_targets = training._examples(*drawn[2])
    with torch.no_grad():
        error = (mine(held) - held_targets).abs().mean().item()
    assert [float(v) for v in line.split(",")] == pytest.approx(
        [1, error, held_targets.abs().mean().item()], rel=1e-4
    )


def test_what_is_kept_is_the_forecaster_that_did_best_on_the_architecture_held_out(tmp_path, monkeypatch):
    """The test makes its held-out errors best in the middle of the training."""
    folders = [recorded(tmp_path / name, seed) for seed, name in enumerate("abh")]
    states = []
    forward = forecaster.Forecaster.forward

    def look(self, normalised):
        answer = forward(self, normalised)
        if not torch.is_grad_enabled():  # a look at the held-out one
            states.append({name: value.clone() for name, value in self.state_dict().items()})
            answer = answer + (0.0 if len(states) == 3 else 10.0)
        return answer

    monkeypatch.setattr(forecaster.Forecaster, "forward", look)
    config = resolve(Wnn, {"forecaster_steps": 40, "windows": 1000})
    made, _ = training._train(config, job(tmp_path), folders, "conv")
    assert len(states) == 20
    assert all(torch.equal(value, states[2][name]) for name, value in made.items())
    assert not torch.equal(states[2]["head.bias"], states[-1]["head.bias"])


def test_a_forecaster_that_cannot_learn_is_not_saved(tmp_path):
    folders = [recorded(tmp_path / name, seed, scale=float("nan")) for seed, name in enumerate("abh")]
    config = resolve(Wnn, {"forecaster_steps": 5, "windows": 1000})
    with pytest.raises(UserError, match="the forecaster of conv weights has learned nothing"):
        training._train(config, job(tmp_path), folders, "conv")


def test_initial_weights_are_those_of_the_authors():
    """The ends of a stream are uniform with variance 0.1 / inputs; the rest is Keras' default, Glorot's."""
    made = [forecaster.Forecaster() for _ in range(20)]
    for stream in ("values", "differences"):
        for name in ("enter", "narrow", "shift", "scale", "rate", "leave"):
            check_initial([getattr(getattr(one, stream), name) for one in made], name in ("enter", "leave"))
    check_initial([one.head for one in made], False)


def check_initial(layers, is_end):
    outputs, inputs = layers[0].weight.shape
    limit = (0.3 / inputs) ** 0.5 if is_end else (6 / (inputs + outputs)) ** 0.5
    weights = torch.stack([layer.weight.detach() for layer in layers])
    assert 0.98 * limit < float(weights.abs().max()) <= limit * (1 + 1e-6)
    assert float(weights.var()) == pytest.approx(limit**2 / 3, rel=0.1)
    assert not any(bool(layer.bias.any()) for layer in layers)
