"""What the workers push, pull and put on the wire in a run, by the formula of each method."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
import yaml

from tests import small
from thinwire.codecs.select import count
from thinwire.train.trainer import Trainer

# A run of 15 steps, in three epochs.
STEPS, EPOCH = 15, 5


class Bytes(NamedTuple):
    push: int
    """Of each worker."""
    pull: int
    """Of each worker."""
    wire: int
    """Sent by all workers together."""


class Formula:
    """What the formulas are about."""

    def __init__(self, run: Trainer, options: dict[str, Any]) -> None:
        self.run, self.options = run, options
        self.workers = len(run.workers)
        self.weights = run.workers[0].run.weights
        self.sizes = [weight.numel() for weight in self.weights]
        self.numel = sum(self.sizes)
        self.method = run.workers[0].method

    def averaged(self, push: int) -> Bytes:
        """As much is pulled as is pushed, on a ring or on a server for each part."""
        return Bytes(push, push, 2 * (self.workers - 1) * push)

    def gathered(self, push: int) -> Bytes:
        others = self.workers - 1
        return Bytes(push, others * push, self.workers * others * push)

    def served(self, push: int, pull: int) -> Bytes:
        """What a server and its own worker exchange stays local."""
        return Bytes(push, pull, (self.workers - 1) * (push + pull))

    def ssgd(self) -> Bytes:
        return self.averaged(STEPS * 4 * self.numel)

    def ps_sgd(self) -> Bytes:
        return self.served(STEPS * 4 * self.numel, STEPS * 4 * self.numel)

    def local_sgd(self) -> Bytes:
        """4 n after every `period` steps."""
        return self.averaged(STEPS // self.options["period"] * 4 * self.numel)

    def multi_step_delay(self) -> Bytes:
        """One gradient a round: 2 steps of warm-up, and 13 steps in rounds of 4, 4, 4 and 1. No losses."""
        assert {kind for _, _, kind in self.run.workers[0].ledger.rows} == {"values"}
        return self.averaged((2 + 4) * 4 * self.numel)

    def gossip(self) -> Bytes:
        """4 n for each peer in each exchange, and one mean at the end."""
        exchanges = STEPS // self.options["period"] * (2 if self.options["graph"] == "ring" else 1)
        size, mean = 4 * self.numel, self.averaged(4 * self.numel)
        push = exchanges * size + mean.push
        return Bytes(push, push, self.workers * exchanges * size + mean.wire)

    def des_loc(self) -> Bytes:
        """Weights after steps 4, 8, 12 and at the end; the first moment 5 times, the second 3."""
        optimizer = self.run.task.recipe.optimizer
        means = 5 + 3 if optimizer.name == "adamw" else 5 if optimizer.momentum else 0
        return self.averaged((4 + means) * 4 * self.numel)

    def top_k(self) -> Bytes:
        """k = sum ceil(density n) entries of 4 + 4 bytes."""
        return self.gathered(STEPS * 8 * sum(math.ceil(0.03 * n) for n in self.sizes))

    def ef21(self) -> Bytes:
        """4 n in the first step, then as top-k."""
        first = self.averaged(4 * self.numel)
        later = self.gathered((STEPS - 1) * 8 * sum(math.ceil(0.03 * n) for n in self.sizes))
        return Bytes(*map(sum, zip(first, later)))

    def dgc(self) -> Bytes:
        """Of matrices k entries of 4 bytes and their positions, and two sizes if they vary; 4 of others."""
        matrices = [w.numel() for w in self.weights if w.dim() > 1]
        dense = self.averaged(EPOCH * 4 * sum(matrices) + STEPS * 4 * (self.numel - sum(matrices)))
        sent = 0
        for density in (0.3, 0.02):
            k = sum(count(density, n) for n in matrices)
            of_positions = {"int32": 4 * k, "bitmap": math.ceil(sum(matrices) / 8), "run_length": 2 * k + 16}
            sent += EPOCH * (4 * k + of_positions[self.options["indices"]])
        return Bytes(*map(sum, zip(dense, self.gathered(sent))))

    def chunks(self) -> Iterator[tuple[int, int, int]]:
        """Of each tensor: how many values are sent, and the bytes of their positions; 0 of whole chunks."""
        most, limit = self.options.get("k", 32), self.options.get("chunk", 64)
        for weight in self.weights:
            rows = len(weight) if weight.dim() > 1 else 1
            entries = _side(rows, limit) * _side(weight.numel() // rows, limit)
            k, number = min(most, entries), weight.numel() // entries
            width = math.ceil(math.log2(entries)) if k < entries else 0
            yield number * k, math.ceil(number * k * width / 8), number

    def demo_sgd(self) -> Bytes:
        """k coefficients of 4 bytes a chunk, and positions in as many bits as a chunk needs."""
        return self.gathered(STEPS * sum(4 * values + positions for values, positions, _ in self.chunks()))

    def sparse_loco(self) -> Bytes:
        """Values in `bits` bits, a table a tensor, and positions; in four rounds."""
        bits = self.options.get("bits", 2)
        table = 0 if bits == 32 else 4 * 2**bits
        sent = sum(math.ceil(values * bits / 8) + table + positions for values, positions, _ in self.chunks())
        return self.gathered(4 * sent)

    def diloco(self) -> Bytes:
        """4 n of each fragment; in fewer bits, levels and scales of each part, of which each worker has one.

        The last round is shorter, or is what is left over.
        """
        rounds = {
            5: {316: 3},
            4: {316: 4},
            3: {30: 6, 6: 6, 280: 5},
            6: {30 + 280: 3, 6: 3},
        }[self.options["period"]]
        bits = self.options["bits"]

        def encoded(n: int) -> int:
            parts = [len(part) for part in torch.zeros(n).chunk(self.workers)]
            return 4 * n if bits == 32 else sum(_levels(part, bits, 10) for part in parts)

        return self.averaged(sum(times * encoded(n) for n, times in rounds.items()))

    def dion(self) -> Bytes:
        """4 r (n + m) of a hidden matrix that becomes smaller; 4 of every other entry."""
        sent = self.numel
        for param in self.run.workers[0].run.params:
            if param.hidden:
                rows, columns = param.tensor.flatten(1).shape
                rank = math.ceil(self.options.get("rank_fraction", 0.25) * min(rows, columns))
                factors = rank * (rows + columns)
                if rows * columns > factors or "min_gain" in self.options:
                    sent += factors - rows * columns
        assert sent != self.numel
        return self.averaged(STEPS * 4 * sent)

    def power_sgd(self) -> Bytes:
        """4 r (n + m) of a compressed matrix, 4 r n or 4 r m with `alternate`; 4 of every other entry."""
        rank, gain = self.options.get("rank", 2), self.options.get("min_gain", 2.0)
        dense = self.options.get("dense_steps", 2)
        total, compressed = STEPS * self.numel, 0
        for rows, columns in (w.flatten(1).shape for w in self.weights if w.dim() > 1):
            r = min(rank, rows, columns)
            of_step = [r * (rows + columns)] * 2  # of an even and of an odd step after the dense ones
            if self.options.get("alternate"):
                of_step = [r * columns, r * rows]
            if rows * columns > gain * sum(of_step) / 2:
                compressed += rows * columns
                total += sum(of_step[step % 2] - rows * columns for step in range(STEPS - dense))
        assert compressed
        return self.averaged(4 * total)

    def one_bit_adam(self) -> Bytes:
        """4 n a step in the warm-up of 5; then signs and scales of each tensor."""
        block = self.options["block"]
        return self.averaged(5 * 4 * self.numel + (STEPS - 5) * sum(_levels(n, 1, block) for n in self.sizes))

    def sign_sgd(self) -> Bytes:
        """Signs and scales of each tensor; of votes, signs of all tensors together."""
        sent = sum(_levels(n, 1, self.options.get("block")) for n in self.sizes)
        if self.options["rule"] == "majority":
            sent = math.ceil(self.numel / 8)
        return (self.averaged if self.options["rule"] == "two_sided" else self.gathered)(STEPS * sent)

    def qsgd(self) -> Bytes:
        """Levels and scales of each tensor."""
        bits, block = self.options.get("bits", 4), self.options.get("block", 128)
        return self.gathered(STEPS * sum(_levels(n, bits, block) for n in self.sizes))

    def hylo(self) -> Bytes:
        """What is pulled is dense, so that no more than half can be saved.

        The convolution has 3 kernels of 9 entries, and the linear layer 10 rows of 27. Two kernels and four
        rows are the shares 16 / 27 and 100 / 270, rounded up. Places are a bitmap of one or two bytes.
        """
        compression = self.options.get("compression", "hybrid")
        convolution, linear = 4 + 1 + 4 * 2 * 9, 4 + 2 + 4 * 4 * 27
        if compression == "uniform_two_bits":
            convolution = 4 * 2 + 4
        if compression != "uniform_kernels":
            linear = 4 * 17 + 4
        params = self.run.workers[0].run.params
        dense = 4 * sum(p.tensor.numel() for p in params if self.method.kind(p) == "dense")
        return self.served(STEPS * (convolution + linear + dense), STEPS * 4 * self.numel)


def _side(n: int, limit: int) -> int:
    """The largest divisor of n up to the limit."""
    return max(d for d in range(1, limit + 1) if n % d == 0)


def _levels(n: int, bits: int, block: int | None) -> int:
    """Bytes of n levels, and a scale of 4 bytes for each block."""
    return math.ceil(n * bits / 8) + 4 * math.ceil(n / (block or n))


# The method and its options; `optimizer` is one of the recipe.
CASES = """
ssgd: {}
ps_sgd: {servers: spread}
ps_sgd: {servers: one}
local_sgd: {period: 5}
multi_step_delay: {warmup_steps: 2, interval: 4, min_interval: 4, max_interval: 4, delay: 0}
multi_step_delay: {warmup_steps: 2, interval: 4, min_interval: 4, max_interval: 4, delay: 1}
gossip: {graph: exponential, period: 1}
gossip: {graph: exponential, period: 4}
gossip: {graph: ring, period: 1}
gossip: {graph: ring, period: 4}
gossip: {graph: random_pairs, period: 1}
gossip: {graph: random_pairs, period: 4}
des_loc: {period: 4, first_period: 3, second_period: 5, optimizer: {name: adamw, lr: 0.01}}
des_loc: {period: 4, first_period: 3, second_period: 5, optimizer: {lr: 0.05, momentum: 0.9}}
des_loc: {period: 4, first_period: 3, second_period: 5, optimizer: {lr: 0.05, momentum: 0.0}}
top_k: {density: 0.03}
top_k: {density: 0.03, selection: random}
ef21: {density: 0.03}
dgc: {density: 0.02, warmup_densities: [1.0, 0.3], selection: exact, indices: int32}
dgc: {density: 0.02, warmup_densities: [1.0, 0.3], selection: exact, indices: bitmap}
dgc: {density: 0.02, warmup_densities: [1.0, 0.3], selection: exact, indices: run_length}
demo_sgd: {k: 32}
demo_sgd: {k: 3, chunk: 9}
sparse_loco: {period: 4, k: 64}
sparse_loco: {period: 4, k: 3, chunk: 9}
sparse_loco: {period: 4, k: 3, bits: 4}
sparse_loco: {period: 4, k: 3, bits: 32}
diloco: {block: 10, bits: 32, period: 5}
diloco: {block: 10, bits: 32, period: 4}
diloco: {block: 10, bits: 32, period: 3, fragments: 3}
diloco: {block: 10, bits: 32, period: 6, fragments: 2, delay: 2, mix: 0.5}
diloco: {block: 10, bits: 8, period: 5}
diloco: {block: 10, bits: 8, period: 3, fragments: 3}
diloco: {block: 10, bits: 4, period: 4}
diloco: {block: 10, bits: 4, period: 6, fragments: 2, delay: 2, mix: 0.5}
dion: {}
dion: {rank_fraction: 0.5}
dion: {rank_fraction: 1.0, min_gain: 0.0}
power_sgd: {dense_steps: 2, rank: 1}
power_sgd: {dense_steps: 2}
power_sgd: {dense_steps: 2, rank: 3, min_gain: 0.0}
power_sgd: {dense_steps: 2, alternate: true}
power_sgd: {dense_steps: 6}
one_bit_adam: {warmup_steps: 5, block: null, optimizer: {name: adamw, lr: 0.001}}
one_bit_adam: {warmup_steps: 5, block: 7, optimizer: {name: adamw, lr: 0.001}}
sign_sgd: {rule: error_feedback}
sign_sgd: {rule: error_feedback, block: 7}
sign_sgd: {rule: two_sided}
sign_sgd: {rule: two_sided, block: 7}
sign_sgd: {rule: majority}
qsgd: {}
qsgd: {bits: 2, norm: max, block: null}
qsgd: {levels: exponential}
qsgd: {bits: 3, block: 7}
hylo: {conv_threshold: 16, linear_threshold: 100, least_rate: 0.1, exponent: 1.0}
hylo: {conv_threshold: 16, linear_threshold: 100, least_rate: 0.1, exponent: 1.0, importance: random}
hylo: {conv_threshold: 16, linear_threshold: 100, least_rate: 0.1, exponent: 1.0, residual: false}
hylo: {conv_threshold: 16, linear_threshold: 100, least_rate: 0.1, exponent: 1, compression: uniform_kernels}
hylo: {conv_threshold: 16, linear_threshold: 100, compression: uniform_two_bits}
"""


@pytest.mark.parametrize(("workers", "nodes"), [pytest.param(4, 1, marks=pytest.mark.slow), (6, 2)])
@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_bytes_are_the_formula(case: str, workers: int, nodes: int) -> None:
    ((method, options),) = yaml.safe_load(case).items()
    changes = {"optimizer": options.pop("optimizer")} if "optimizer" in options else {}
    if method in ("dion", "one_bit_adam"):
        changes["build_model"] = small.Plain
    run = small.trainer(small.task(workers, nodes, dtype=torch.float32, **changes), method, **options)
    run.train()
    assert (run.total_steps, run.steps_per_epoch) == (STEPS, EPOCH)
    formula: Callable[[], Bytes] = getattr(Formula(run, options), method)
    expected = formula()
    totals = [worker.ledger.total() for worker in run.workers]
    assert {(total.payload_push, total.payload_pull) for total in totals} == {(expected.push, expected.pull)}
    assert sum(total.wire_sent for total in totals) == expected.wire
