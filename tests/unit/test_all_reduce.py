"""The compressed all-reduce: nothing is lost if errors are kept, and all workers get the same bits."""

import pytest
import torch

import thinwire
from tests import small
from thinwire.api.all_reduce import all_reduce, exchange
from thinwire.codecs import blocks, lossy

WORKERS = 3


class Averaging(thinwire.Method):
    """Averages the gradients in 4 bits, and adds up what goes in and what comes out."""

    parts = WORKERS

    def setup(self):
        self.memory["reduce"] = {}
        self.given, self.taken = 0.0, 0.0

    def sync_gradients(self):
        row = small.flat(self.run.gradients)
        self.given += row
        rows, codec = [*row.tensor_split(self.parts)], blocks.Rounded(4, 16)
        means = all_reduce(self.run.world, rows, codec, self.memory["reduce"])
        self.taken += torch.cat(means)


def trained(**changes):
    run = small.trainer(small.task(WORKERS), type("Method", (Averaging,), changes))
    run.train()
    return [worker.method for worker in run.workers]


@pytest.mark.parametrize("parts", [2, WORKERS, 7])
def test_what_comes_out_and_all_errors_are_what_went_in(parts):
    methods = trained(parts=parts)
    given = sum(method.given for method in methods) / WORKERS
    of_workers = sum(torch.cat(method.memory["reduce"]["errors"]) for method in methods) / WORKERS
    of_servers = [methods[j % WORKERS].memory["reduce"][f"server {j}"]["errors"][0] for j in range(parts)]
    kept = of_workers + torch.cat(of_servers)
    assert kept.abs().max() > 1e-3
    for method in methods:
        assert torch.equal(method.taken, methods[0].taken)
        torch.testing.assert_close(method.taken + kept, given, rtol=0, atol=1e-12)


def test_without_answers_each_mean_stays_where_its_server_is():
    found = []

    class Method(thinwire.Method):
        def sync_gradients(self):
            row = torch.full((10,), float(self.run.world.rank))
            found.append(exchange(self.run.world, [*row.split(5)], blocks.Rounded(8, 1), answers=False))

    small.trainer(small.task(WORKERS), Method).train(until=1)
    for rank, (answers, means) in enumerate(sorted(found, key=lambda each: -len(each[1]))):
        assert answers == [{}, {}]
        assert [mean.tolist() for mean in means] == ([[1.0] * 5] if rank < 2 else [])


def test_rows_of_any_lengths_travel_as_one_payload():
    codec = blocks.Rounded(4, 3)
    rows = [torch.arange(n, dtype=torch.float32) for n in (1, 8, 0, 5)]
    joined = lossy.join(codec.encode(rows))
    assert joined["values"].numel() == 1 + 4 + 0 + 3
    assert joined["scales"].numel() == 1 + 3 + 0 + 2
    back = lossy.decode(codec, joined, [len(row) for row in rows])
    for row, payload, decoded in zip(rows, codec.encode(rows), back):
        assert torch.equal(decoded, codec.decode(payload, len(row)))
