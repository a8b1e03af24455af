"""DeMo: what is sent leaves the momentum, a coefficient is the mean of its senders, bytes are the formula."""

import math

import pytest
import torch

from tests import small
from thinwire.codecs import chunks, dct


def chunks_of(run):
    return run.workers[0].method.chunks


def mean_of_senders(payloads, all_chunks):
    return chunks.mean([chunks.read(each, all_chunks) for each in payloads], all_chunks, of_senders=True)


def side(n, limit):
    """The largest divisor of n up to the limit."""
    return max(d for d in range(1, limit + 1) if n % d == 0)


@pytest.mark.parametrize("options", [{"k": 2}, {"k": 2, "chunk": 5, "decay": 0.5}])
def test_at_every_step_what_is_sent_and_what_is_kept_are_the_momentum_before(options):
    run = small.trainer(small.task(2), "demo_sgd", **options)
    decay = run.workers[0].method.config.decay
    for worker in run.workers:
        gather, memory = worker.run.world.gather, worker.method.memory
        kept = [small.flat(memory["momentum"])]

        def weighed(payload, worker=worker, gather=gather, memory=memory, kept=kept):
            sent = small.flat(mean_of_senders([payload], chunks_of(run)))
            expected = decay * kept[-1] + worker.run.lr * small.flat(worker.run.gradients)
            kept.append(small.flat(memory["momentum"]))
            torch.testing.assert_close(sent + kept[-1], expected, rtol=0, atol=1e-14)
            assert sent.any()
            assert kept[-1].any()
            return gather(payload)

        worker.run.world.gather = weighed
    run.train()


def test_a_coefficient_is_the_mean_over_its_senders_and_not_over_all_workers():
    of = dct.Chunks(torch.zeros(6, dtype=torch.float64), 3, 1)
    waves = [of.decode(torch.tensor(rows, dtype=torch.float64)) for rows in ([[4, 1, 0], [0, 0, 8]],) * 2]
    waves.append(of.decode(torch.tensor([[0, 2, 0], [0, 0, 2]], dtype=torch.float64)))
    payloads = [chunks.take([wave], [of]) for wave in waves]
    (mean,) = mean_of_senders(payloads, [of])
    expected = torch.tensor([[4, 2, 0], [0, 0, 6]], dtype=torch.float64)
    torch.testing.assert_close(of.encode(mean), expected)


@pytest.mark.parametrize("shape", [(), (7,), (130,), (4, 6), (3, 1, 3, 3), (8, 5, 2, 2)])
@pytest.mark.parametrize("limit", [1, 4, 64])
def test_chunks_are_transformed_by_cosines_and_back(shape, limit):
    tensor = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    of = dct.Chunks(tensor, limit, 1)
    coefficients = of.encode(tensor)
    torch.testing.assert_close(of.decode(coefficients), tensor)
    rows = shape[0] if len(shape) > 1 else 1
    h, w = side(rows, limit), side(tensor.numel() // rows, limit)
    first = tensor.reshape(rows, -1)[:h, :w]
    for u, v in [(0, 0), (h - 1, w - 1)]:
        wave = torch.tensor(
            [
                [
                    math.cos(math.pi * (2 * i + 1) * u / (2 * h))
                    * math.cos(math.pi * (2 * j + 1) * v / (2 * w))
                    for j in range(w)
                ]
                for i in range(h)
            ],
            dtype=torch.float64,
        )
        torch.testing.assert_close(coefficients[0, u * w + v], (first * wave).sum() / wave.norm())


@pytest.mark.parametrize("sign", [True, False])
def test_every_entry_moves_by_the_rate_and_the_recipes_momentum_is_left_out(sign):
    run = small.trainer(small.task(2, optimizer={"lr": 0.05, "momentum": 0.9}), "demo_sgd", sign=sign)
    (group,) = run.workers[0].run.optimizer.param_groups
    assert group["momentum"] == (0 if sign else 0.9)
    before = small.flat(run.workers[0].run.weights).clone()
    run.train(until=1)
    moved = (small.flat(run.workers[0].run.weights) - before).abs()
    rate = run.workers[0].run.lr
    assert bool((((moved - rate).abs() < 1e-12) | (moved < 1e-12)).all()) == sign


@pytest.mark.parametrize("options", [{}, {"k": 3, "chunk": 9}])
def test_bytes_are_the_formula(options):
    """k coefficients of 4 bytes a chunk; positions in as many bits as a chunk needs, rounded up by tensor."""
    run = small.trainer(small.task(6, 2, dtype=torch.float32), "demo_sgd", **options)
    run.train()
    most, limit = options.get("k", 32), options.get("chunk", 64)
    push = 0
    for weight in run.workers[0].run.weights:
        rows = len(weight) if weight.dim() > 1 else 1
        entries = side(rows, limit) * side(weight.numel() // rows, limit)
        k, count = min(most, entries), weight.numel() // entries
        width = math.ceil(math.log2(entries)) if k < entries else 0
        push += 4 * count * k + math.ceil(count * k * width / 8)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == run.total_steps * push
        assert total.payload_pull == total.wire_sent == run.total_steps * 5 * push


def test_a_chunk_of_64_by_64_has_positions_of_12_bits():
    of = dct.Chunks(torch.zeros(128, 64, 1, 1), 64, 32)
    assert (of.count, of.entries, of.bits) == (2, 4096, 12)
    payload = chunks.take([torch.randn(128, 64, 1, 1)], [of])
    assert {kind: tensor.nbytes for kind, tensor in payload.items()} == {"values": 256, "indices": 96}
