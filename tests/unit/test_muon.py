"""Muon: which parameters it steps, and that it is torch's. tests/golden holds it to its reference."""

import pytest
import torch
from torch import nn

import thinwire
from tests import small
from thinwire.api.parameters import parameters
from thinwire.base.errors import MethodError, UserError
from thinwire.optim.optimizers import Muon, orthogonalised

MUON = {"name": "muon", "lr": 0.02, "weight_decay": 0.01}


def language_model(head):
    """An embedding, a hidden layer, and a head: a linear layer, one that shares its weight, or none."""
    layers = {"embedding": nn.Embedding(7, 5), "hidden": nn.Linear(5, 5), "norm": nn.LayerNorm(5)}
    if head != "none":
        layers["head"] = nn.Linear(5, 7, bias=False)
    if head == "shares":
        layers["head"].weight = layers["embedding"].weight
    return nn.ModuleDict(layers)


@pytest.mark.parametrize(
    ("model", "hidden"),
    [
        (language_model("linear"), {"hidden.weight"}),
        (language_model("shares"), {"hidden.weight"}),
        (language_model("none"), {"hidden.weight"}),
        (small.Plain(), {"first.weight", "second.weight", "third.weight"}),
        (nn.Linear(3, 2), set()),
    ],
)
def test_hidden_matrices_are_weights_that_are_neither_embedding_nor_head(model, hidden):
    assert {param.name for param in parameters(model) if param.hidden} == hidden


def test_a_step_is_torchs_up_to_the_precision_of_bfloat16():
    stream = torch.Generator().manual_seed(1)
    start = [torch.randn(shape, generator=stream) for shape in [(6, 4), (4, 9)]]
    mine, theirs = ([nn.Parameter(tensor.clone()) for tensor in start] for _ in "ab")
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
    muons = Muon(mine, None, **options), torch.optim.Muon(theirs, adjust_lr_fn="match_rms_adamw", **options)
    for _ in range(3):
        for one, other in zip(mine, theirs):
            one.grad = torch.randn(one.shape, generator=stream)
            other.grad = one.grad.clone()
        for muon in muons:
            muon.step()
    for one, other, first in zip(mine, theirs, start):
        moved = (one.data - first).norm()
        assert float((one.data - other.data).norm() / moved) < 0.02


@pytest.mark.parametrize("shape", [(8, 8), (20, 3), (3, 20)])
def test_singular_values_come_close_to_one_and_zeros_stay(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    even = left @ torch.diag(values.clamp(min=values.max() / 10)) @ right
    found = torch.linalg.svdvals(orthogonalised(even))
    assert 0.65 < float(found.min()) <= float(found.max()) < 1.25
    assert not orthogonalised(torch.zeros(shape)).any()


@pytest.mark.parametrize("method", ["ssgd", "ps_sgd"])
def test_a_run_resumes_to_the_same_bits(method, tmp_path):
    """Its state is that of two optimizers, on the workers or on servers."""
    task = small.task(2, dtype=torch.float32, optimizer=MUON)
    small.resumed(lambda: small.trainer(task, method), 4, tmp_path)


def test_a_model_without_hidden_matrices_is_refused_before_anything_runs():
    def build():
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    with pytest.raises(UserError, match=r"optimizer is muon, but the model has no hidden matrices: .* adamw"):
        small.trainer(small.task(2, build_model=build, optimizer=MUON), "ssgd")


def test_tensors_without_a_place_in_the_model_are_refused():
    class Flat(thinwire.Method):
        def optimizer(self, params):
            return self.run.make_optimizer([nn.Parameter(params[0].flatten().clone())])

    with pytest.raises(MethodError, match="muon needs the model's parameters, or in copies_of those"):
        small.trainer(small.task(1, optimizer=MUON), Flat)
