"""The hooks that tell a method, during the passes, which parameters are ready."""

import pytest
import torch
from torch import nn

from tests import small
from thinwire.api.method import Method
from thinwire.api.parameters import parameters
from thinwire.base.errors import UserError
from thinwire.train.passes import ReadyHooks


class Rows(nn.Module):
    """Linear layers that run in another order than the one in which they are declared."""

    def __init__(self, order: list[int], layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(layers))
        self.order = order
        self.events: list[str] = []

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        for layer in self.order:
            numbers = self.layers[layer](numbers).tanh()
        return numbers.sum()


class Recorder(Method):
    """Records the calls of its hooks, and which gradients exist at that time."""

    def __init__(self, model: Rows) -> None:
        self.params = parameters(model)
        self.announced: list[str] = []
        self.gradients_then: dict[int, list[int]] = {}
        for i, layer in enumerate(model.layers):
            layer.register_forward_hook(lambda *_, i=i: self.announced.append(f"ran {i}"))

    def forward_ready(self, param):
        assert not torch.is_grad_enabled()
        self.announced.append(f"use {param.index}")

    def grad_ready(self, param):
        assert not torch.is_grad_enabled()
        self.announced.append(f"grad {param.index}")
        self.gradients_then[param.index] = [p.index for p in self.params if p.tensor.grad is not None]


def one_step(model, announcer):
    model.zero_grad()
    with announcer.during_passes():
        loss = model(torch.ones(3, 2))
        announcer.end_forward()
        loss.backward()


def recorded(model):
    """What was announced in a step, and what announces it."""
    recorder = Recorder(model)
    announcer = ReadyHooks(model, recorder.params, recorder)
    one_step(model, announcer)
    return recorder, announcer


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 0, 1], [1]])
def test_all_are_announced_once_in_the_order_of_the_contract(order):
    """In the declared order, from the input side and from the output side, whichever layers run."""
    model = Rows(order)
    recorder, announcer = recorded(model)
    for _ in range(2):
        announced = recorder.announced
        assert [event for event in announced if event.startswith("use")] == [f"use {i}" for i in range(6)]
        assert [event for event in announced if event.startswith("grad")] == [
            f"grad {i}" for i in range(5, -1, -1)
        ]
        for layer in order:
            assert announced.index(f"use {2 * layer + 1}") < announced.index(f"ran {layer}")
        last_run = max(i for i, event in enumerate(announced) if event.startswith("ran"))
        assert all(announced.index(f"grad {i}") > last_run for i in range(6))
        recorder.announced = []
        one_step(model, announcer)


def test_announcements_come_while_the_passes_run():
    recorder, _ = recorded(Rows([0, 1, 2]))
    assert recorder.announced[:9] == [
        *("use 0", "use 1", "ran 0"),
        *("use 2", "use 3", "ran 1"),
        *("use 4", "use 5", "ran 2"),
    ]
    # The gradients of the last layer are heard of before those of the first are there.
    assert recorder.gradients_then[4] == [4, 5]
    assert recorder.gradients_then[2] == [2, 3, 4, 5]


def test_a_gradient_that_comes_early_is_held_back():
    """The first layer runs last: its gradients exist first, and are announced last."""
    recorder, _ = recorded(Rows([2, 1, 0]))
    assert recorder.announced[:7] == [*(f"use {i}" for i in range(6)), "ran 2"]
    assert {0, 1} < set(recorder.gradients_then[3]) | set(recorder.gradients_then[2])
    assert all(i in there for i, there in recorder.gradients_then.items())


def test_parameters_that_nothing_uses_are_announced_at_the_end_of_each_pass():
    recorder, _ = recorded(Rows([0, 1]))
    assert recorder.announced.index("use 4") > recorder.announced.index("ran 1")
    # The announcements after it have waited for one that never came.
    assert recorder.gradients_then == {i: [0, 1, 2, 3] for i in range(6)}
    assert all(param.grad.eq(0).all() for param in recorder.params[4:])


def test_a_tensor_that_two_layers_share_is_announced_before_the_first_of_them_runs():
    model = Rows([1, 0], layers=2)
    model.layers[1].weight = model.layers[0].weight
    recorder, _ = recorded(model)
    assert recorder.announced == ["use 0", "use 1", "use 2", "ran 1", "ran 0", "grad 2", "grad 1", "grad 0"]
    # Frozen parameters are not announced.
    model = Rows([0, 1], layers=2)
    model.layers[0].requires_grad_(False)
    recorder, _ = recorded(model)
    assert recorder.announced == ["ran 0", "use 0", "use 1", "ran 1", "grad 1", "grad 0"]


class Positions(nn.Module):
    """Uses a weight of one layer without calling the layer, and those of attention through torch's own."""

    def __init__(self, calls: bool) -> None:
        super().__init__()
        self.calls = calls
        self.attention = nn.MultiheadAttention(2, 1)
        self.places = nn.Embedding(3, 2)
        self.layers = nn.ModuleList()

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        places = self.places(torch.arange(3)) if self.calls else self.places.weight
        return self.attention(numbers + places, numbers, places)[0].sum()


def test_a_layer_whose_weight_is_used_without_calling_it_is_refused():
    """Its method would set the weight after it was used."""
    recorded(Positions(calls=True))
    with pytest.raises(UserError, match=r"^the model uses its parameter places\.weight without a call of"):
        recorded(Positions(calls=False))


def test_gpt_calls_all_its_layers():
    model = small.gpt()
    announcer = ReadyHooks(model, parameters(model), Listener(None, None))
    with announcer.during_passes():
        logits = model(small.texts().train_inputs[:2].long())
        announcer.end_forward()
        logits.sum().backward()
    assert all(param.grad is not None for param in model.parameters())


class Listener(Method):
    def forward_ready(self, param):
        pass


def test_evaluation_announces_nothing():
    """Neither before the first step nor after it."""
    model = Rows([0, 1, 2])
    recorder = Recorder(model)
    announcer = ReadyHooks(model, recorder.params, recorder)
    for _ in range(2):
        recorder.announced = []
        with torch.no_grad():
            model(torch.ones(2))
        model(torch.ones(2)).backward()
        state = {name: tensor.clone() for name, tensor in model.named_parameters()}
        torch.func.functional_call(model, state, (torch.ones(2),))
        assert [event for event in recorder.announced if not event.startswith("ran")] == []
        one_step(model, announcer)


def test_a_method_that_does_not_listen_costs_nothing():
    model = Rows([0])
    ReadyHooks(model, parameters(model), Method(None, None))
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert not any(param._post_accumulate_grad_hooks for param in model.parameters())
