"""SparseLoCo: what a round sends and keeps is the error before, means are as asked, bytes are the formula."""

import math

import pytest
import torch

from methods import sparse_loco
from tests import small
from thinwire.codecs import bits, chunks


def side(n, limit):
    """The largest divisor of n up to the limit."""
    return max(d for d in range(1, limit + 1) if n % d == 0)


@pytest.mark.parametrize("options", [{"bits": 2}, {"bits": 4, "chunk": 5, "decay": 0.5}, {"bits": 32}])
def test_in_every_round_what_is_sent_and_what_is_kept_are_the_error_before(options):
    run = small.trainer(small.task(2), "sparse_loco", period=4, k=2, **options)
    decay, width = run.workers[0].method.config.decay, options["bits"]
    errors = []
    for worker in run.workers:
        method, gather, memory = worker.method, worker.run.world.gather, worker.method.memory
        kept = [small.flat(memory["error"])]
        errors.append(kept)

        def weighed(payload, method=method, gather=gather, memory=memory, kept=kept):
            read = chunks.read(payload, method.chunks, width)
            sent = small.flat(chunks.mean([read], method.chunks, of_senders=False))
            change = small.flat(memory["theta"]) - small.flat(method.run.weights)
            expected = decay * kept[-1] + change
            kept.append(small.flat(memory["error"]))
            torch.testing.assert_close(sent + kept[-1], expected, rtol=0, atol=1e-14)
            assert 0 < int((sent != 0).sum()) < len(sent) // 2
            assert kept[-1].any()
            return gather(payload)

        worker.run.world.gather = weighed
    run.train()
    assert [len(kept) for kept in errors] == [5, 5], "of 15 steps, three have a shorter round"


def test_the_last_round_is_counted_also_if_it_is_shorter_and_theta_is_delivered():
    run = small.trainer(small.task(2), "sparse_loco", period=4)
    run.train()
    for worker in run.workers:
        assert worker.ledger.rows["world", "gather", "values"].messages == 4
        assert torch.equal(small.flat(worker.run.weights), small.flat(worker.method.memory["theta"]))
    assert torch.equal(small.flat(run.shipped()[0]), small.flat(run.workers[0].run.weights))


@pytest.mark.parametrize("of_senders", [False, True])
def test_an_entry_is_the_mean_over_all_workers_or_over_its_senders(of_senders):
    of = chunks.Chunks(torch.zeros(6, dtype=torch.float64), 3, 1)
    rows = ([4.0, 1, 0, 0, 0, 8], [4.0, 1, 0, 0, 0, 8], [0.0, 2, 0, 0, 0, 2])
    payloads = [chunks.take([torch.tensor(row, dtype=torch.float64)], [of]) for row in rows]
    (mean,) = chunks.mean([chunks.read(each, [of]) for each in payloads], [of], of_senders)
    expected = [4, 2, 0, 0, 0, 6] if of_senders else [8 / 3, 2 / 3, 0, 0, 0, 6]
    assert mean.tolist() == pytest.approx(expected)


def test_clipping_shortens_what_is_above_the_median_norm_and_nothing_else():
    positions = torch.tensor([0, 1])
    values = [torch.tensor(row, dtype=torch.float64) for row in ([3.0, 4.0], [0.0, 1.0], [30.0, 40.0])]
    clipped = sparse_loco.clipped([[(each, positions)] for each in values])
    expected = ([3.0, 4.0], [0.0, 1.0], [3.0, 4.0])
    for ((found, _),), wanted in zip(clipped, expected):
        assert found.tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_table_has_the_mean_of_each_bin_so_the_sum_is_kept(width):
    drawn = torch.Generator().manual_seed(width)
    values = torch.randn(400, dtype=torch.float64, generator=drawn) + 0.3
    numbers, table = chunks.quantise(values, width)
    assert table.shape == (2**width,)
    assert int(numbers.min()) >= 0
    assert int(numbers.max()) <= 2**width - 1
    torch.testing.assert_close(table[numbers].sum(), values.sum())
    for number in numbers.unique():
        torch.testing.assert_close(table[number], values[numbers == number].mean())
    middle = (values - values.mean()).abs() < 0.5 * 6 / 2**width * values.std() * 0.99
    assert (numbers[middle] == 2 ** (width - 1)).all(), "the bin in the middle is around the mean"


@pytest.mark.parametrize("values", [[2.5], [1.5, 1.5, 1.5], [0.0, 0.0]])
def test_values_that_are_all_equal_come_back_exactly(values):
    numbers, table = chunks.quantise(torch.tensor(values), 2)
    assert table[numbers].tolist() == values


@pytest.mark.parametrize("options", [{}, {"k": 3, "chunk": 9}, {"k": 3, "bits": 4}, {"k": 3, "bits": 32}])
def test_bytes_are_the_formula(options):
    """Values in `bits` bits, a table a tensor, positions in as many bits as a chunk needs; gathered."""
    run = small.trainer(small.task(6, 2, dtype=torch.float32), "sparse_loco", period=4, **options)
    run.train()
    most, limit, width = options.get("k", 64), options.get("chunk", 64), options.get("bits", 2)
    push = 0
    for weight in run.workers[0].run.weights:
        rows = len(weight) if weight.dim() > 1 else 1
        entries = side(rows, limit) * side(weight.numel() // rows, limit)
        k, count = min(most, entries), weight.numel() // entries
        position = math.ceil(math.log2(entries)) if k < entries else 0
        table = 0 if width == 32 else 4 * 2**width
        push += math.ceil(count * k * width / 8) + table + math.ceil(count * k * position / 8)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == 4 * push
        assert total.payload_pull == total.wire_sent == 4 * 5 * push


def test_a_chunk_of_64_by_64_takes_112_bytes_and_a_tensor_16():
    weight = torch.randn(128, 64, generator=torch.Generator().manual_seed(1))
    of = chunks.Chunks(weight, 64, 64)
    payload = chunks.take([weight], [of], 2)
    sizes = {kind: tensor.nbytes for kind, tensor in payload.items()}
    assert sizes == {"values": 2 * 16, "indices": 2 * 96, "scales": 16}
    assert bits.width(of.entries) == 12
