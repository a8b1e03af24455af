"""What operations and passes would take on a described device, by hand."""

import pytest
import torch
from torch import nn

from thinwire.base.errors import UserError
from thinwire.codecs import select
from thinwire.config.hardware import Accelerator, load_accelerator
from thinwire.optim.recipe import Recipe
from thinwire.simulation.device_clock import PASSES, DeviceClock, blank, pass_seconds
from thinwire.trace.recorder import OPTIMIZER, Activity, Recorder, recording
from thinwire.train.passes import Passes

LEAST = 1e-6
DEVICE = Accelerator(
    title="by hand",
    precision="fp32",
    convolution_flops_per_second=1e9,
    product_flops_per_second=2e9,
    memory_gigabytes_per_second=1.0,
    operation_seconds=LEAST,
    pass_operation_seconds=LEAST,
    error="none",
)
RECIPE = {"epochs": 1, "batch": 1, "batch_per": "worker", "optimizer": {"lr": 0.1}}
RECIPE["schedule"] = {"name": "constant"}
ROW, COLUMN = torch.zeros(100, 10), torch.zeros(10, 1000)
POSITIONS = torch.arange(5)


def seconds(action):
    clock = DeviceClock(DEVICE)
    with clock:
        action()
    return clock() * 1e-9


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (lambda: ROW @ COLUMN, 2 * 100 * 10 * 1000 / 2e9),
        (lambda: torch.add(COLUMN, COLUMN), 3 * 40_000 / 1e9),
        (lambda: COLUMN.clone().copy_(COLUMN), 2 * 2 * 40_000 / 1e9),
        (lambda: COLUMN.view(-1).topk(10), PASSES["topk"] * 2 * 40_000 / 1e9),
        # Positions of 8 bytes, entries of 4, and a sector of 32 for each.
        (lambda: COLUMN.view(-1).index_select(0, POSITIONS), LEAST),
        (lambda: COLUMN.view(-1)[:7].unsqueeze(0), 0.0),
        (lambda: torch.zeros(1).add_(1), 2 * LEAST),
    ],
)
def test_an_operation_takes_the_longest_of_computing_moving_and_starting(action, expected):
    assert seconds(action) == pytest.approx(expected, rel=1e-3)


def test_picking_costs_as_many_sectors_as_entries_and_not_the_whole_tensor():
    many = torch.arange(0, 10_000, 2)
    assert seconds(lambda: COLUMN.view(-1)[many]) == pytest.approx(5_000 * (8 + 4 + 32) / 1e9)
    target, values = torch.zeros(10_000), torch.ones(5_000)
    placing = seconds(lambda: target.index_put_((many,), values))
    sorting = PASSES["sort"] * 2 * 8  # deterministic kernels sort the positions
    assert placing == pytest.approx(5_000 * (sorting + 8 + 4 + 2 * 32) / 1e9)


def test_rows_lie_in_fewer_sectors_than_entries_and_a_few_positions_are_sorted_by_fewer_kernels():
    rows, few = torch.zeros(100, 1000), torch.arange(4)
    assert seconds(lambda: rows[few]) == pytest.approx((4 * 8 + 2 * 4 * 1000 * 4) / 1e9)
    many, target = torch.arange(5_000), torch.zeros(5_000, dtype=torch.uint8)
    fast = DEVICE.model_copy(update={"memory_gigabytes_per_second": 1e9})
    for positions, operations in ((many, 3 + 6), (few, 3 + 3)):
        with DeviceClock(fast) as clock:
            target.index_copy_(0, positions, target[: len(positions)].clone())
        assert clock() * 1e-9 == pytest.approx((1 + operations) * LEAST)


@pytest.mark.parametrize("groups", [1, 4])
def test_both_gradients_of_a_convolution_cost_a_forward_pass_each(groups):
    layer = nn.Conv2d(8, 8, 3, padding=1, groups=groups, bias=False)
    images = torch.zeros(2, 8, 16, 16, requires_grad=True)
    forward = 2 * (2 * 8 * 16 * 16) * (8 // groups * 9) / 1e9
    assert seconds(lambda: layer(images)) == pytest.approx(forward, rel=1e-3)
    made = layer(images)
    gradient = torch.ones_like(made)
    assert seconds(lambda: made.backward(gradient)) == pytest.approx(2 * forward, rel=0.02)


def test_an_optimizer_starts_its_operations_for_many_tensors_at_once():
    weights = [nn.Parameter(torch.zeros(2)) for _ in range(60)]
    for weight in weights:
        weight.grad = torch.zeros(2)
    optimizer = torch.optim.SGD(weights, lr=0.1, foreach=False)
    alone = seconds(optimizer.step)
    recorder = Recorder(0)
    recorder.switch(Activity(OPTIMIZER, "step"))
    token = recording.set(recorder)
    together = seconds(optimizer.step)
    recording.reset(token)
    assert alone == pytest.approx(60 * LEAST, rel=0.05)
    assert together == pytest.approx(alone / 30, rel=0.05)


def test_codecs_do_what_they_do_on_an_accelerator_and_a_selection_costs_at_least_its_topk():
    row = torch.randn(select.SHORTEST, generator=torch.Generator().manual_seed(0))
    k = select.count(0.01, row.numel())
    topk = seconds(lambda: row.topk(k, sorted=False))
    # On a CPU, a search among the largest of groups would read the row about twice.
    assert seconds(lambda: select.exact([row], [k])) > topk > 8 * seconds(row.clone)


def passes_of(layers, batch, device=DEVICE, **recipe):
    passes = Passes(Recipe.model_validate(RECIPE | recipe), torch.device("cpu"))
    return pass_seconds(lambda: nn.Sequential(*layers()), batch, passes, device)


def test_passes_take_the_layers_of_the_batch_without_computing_them():
    def layers():
        return nn.Flatten(), nn.Linear(3 * 32 * 32, 500), nn.ReLU(), nn.Linear(500, 10)

    small, large = (
        passes_of(layers, lambda size=size: blank(size, (3, 32, 32), of_text=False)) for size in (64, 128)
    )
    # 3072 x 500 weights: forward once, and backward once, because images want no gradient.
    product = 2 * 64 * 3072 * 500 / 2e9
    assert small["forward", "1"] == pytest.approx(product, rel=0.01)
    assert small["backward", "1.weight"] + small["backward", "1.bias"] == pytest.approx(product, rel=0.05)
    assert large["forward", "1"] == pytest.approx(2 * product, rel=0.01)


def test_layers_that_move_more_than_they_compute_take_half_as_long_in_bf16():
    slow = DEVICE.model_copy(update={"product_flops_per_second": 1e18})

    def layers():
        return nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)

    half, whole = (
        passes_of(layers, lambda: blank(10_000, (64,), of_text=False), slow, precision=precision)
        for precision in ("bf16", "fp32")
    )
    # The ReLU counts to the layer that follows it.
    assert half["forward", "2"] == pytest.approx(whole["forward", "2"] / 2, rel=0.15)


def test_an_accelerator_with_a_wrong_key_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("thinwire.config.hardware.ACCELERATORS", tmp_path)
    (tmp_path / "own.yaml").write_text("title: own\nprecision: bf16\noperation_seconds: 0\n")
    with pytest.raises(UserError, match="operation_seconds"):
        load_accelerator("own")
