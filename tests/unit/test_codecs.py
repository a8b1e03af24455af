"""Codecs: which entries are chosen, how positions are encoded, and that nothing is lost."""

from itertools import pairwise, product

import pytest
import torch

from tests import processes
from tests.host_waits import counting
from thinwire.codecs import precision as half
from thinwire.codecs import select, sparse
from thinwire.codecs.select import Maxima

ENCODINGS = ["int32", "bitmap", "run_length"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def row(numel, seed=0):
    return torch.randn(numel, generator=generator(seed), dtype=torch.float64)


def tensors(seed=0):
    shapes = [(3, 1, 3, 3), (7,), (10, 27), (1,), (50, 100)]
    stream = generator(seed)
    return [torch.randn(shape, generator=stream, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize(
    ("density", "numel", "expected"),
    [(0.07, 100, 7), (0.01, 1000, 10), (0.01, 1001, 11), (0.001, 5, 1), (1.0, 9, 9), (0.29, 100, 29)],
)
def test_the_share_is_rounded_up(density, numel, expected):
    assert select.count(density, numel) == expected


@pytest.mark.parametrize("how", select.SELECT)
@pytest.mark.parametrize("numel", [1, 10, 999, 5000, 200_000])
@pytest.mark.parametrize("density", [1e-4, 0.01, 0.3, 1.0])
def test_positions_increase_are_valid_and_are_at_most_k(how, numel, density):
    k = select.count(density, numel)
    chosen = select.SELECT[how]([row(numel)], [k], generator())[0]
    assert chosen.dtype == torch.int64
    assert bool((chosen.diff() > 0).all())
    assert chosen.numel() == 0 or (chosen[0] >= 0 and chosen[-1] < numel)
    assert len(chosen) <= k
    assert len(chosen) >= (0.8 * k if how == "sampled" else k)


@pytest.mark.parametrize("numel", [49_999, 50_000, 262_144, 300_007])
@pytest.mark.parametrize("density", [1e-4, 0.01, 0.02, 0.1])
@pytest.mark.parametrize("shape", ["normal", "rising", "periodic", "one large"])
def test_exact_is_exact_where_the_sample_misleads_too(numel, density, shape):
    here = {
        "normal": row(numel),
        "rising": torch.arange(numel, dtype=torch.float64),
        # Every sampled entry is large, and no other.
        "periodic": torch.where(torch.arange(numel) % 50 == 0, 1e3, 1.0) * (1 + row(numel).abs()),
        "one large": row(numel).index_fill(0, torch.tensor([numel // 3]), 1e9),
    }[shape]
    k = select.count(density, numel)
    expected = here.abs().argsort(descending=True)[:k].sort().values
    assert torch.equal(select.exact([here], [k])[0], expected)


@pytest.mark.parametrize("seed", range(20))
def test_sampled_entries_are_larger_than_the_others(seed):
    """Also if more entries than may be sent are above the sampled threshold: not just the first are sent."""
    here = row(50_000, seed)
    chosen = select.sampled([here], [50], generator(seed))[0]
    left = torch.ones(here.numel(), dtype=torch.bool)
    left[chosen] = False
    assert here[chosen].abs().min() >= here[left].abs().max()


# Around the strides of 100 and 60 that a sample of 1 % or 1,000 entries would have, and sizes of layers.
LENGTHS = [25, 29, 31, 50, 59, 60, 61, 64, 96, 97, 99, 100, 101, 128, 129, 200, 300, 400, 500, 576, 600, 1000]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("numel", [60_000, 250_000, 300_000])
def test_a_sampled_threshold_finds_about_k_whatever_the_length_of_the_rows(length, numel, monkeypatch):
    """Some columns are larger than the others, and no sample over- or underestimates their number.

    The sample achieves this alone: the loop that lowers the threshold always ends before it reaches all.
    """
    looked_at_all = []
    reaching = Maxima.reaching

    def look(self, threshold):
        looked_at_all.append(threshold == torch.finfo(self.row.dtype).tiny)
        return reaching(self, threshold)

    monkeypatch.setattr(Maxima, "reaching", look)
    for density in (0.001, 0.01):
        for share in (0.5 * density, 5 * density):
            for larger in (3, 300):
                matrix = torch.randn(numel // length, length, generator=generator(length))
                matrix[:, : max(1, round(share * length))] *= larger
                k = select.count(density, matrix.numel())
                chosen = select.sampled([matrix.view(-1)], [k], generator())[0]
                assert 0.8 * k <= len(chosen) <= k
    assert not any(looked_at_all)


@pytest.mark.parametrize("seed", range(20))
def test_at_least_80_percent_of_k_are_sent_if_few_entries_are_far_larger(seed):
    """A sample can overestimate the large entries, and lowering the threshold may not reach the others."""
    numel, k = 60_000, 60
    here = row(numel, seed)
    here[torch.randperm(numel, generator=generator(seed))[:44]] *= 300
    assert 0.8 * k <= len(select.sampled([here], [k], generator(seed))[0]) <= k


@pytest.mark.parametrize("shape", ["normal", "few far larger", "equal", "zeros", "mostly zeros"])
@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gpu_finds_the_entries_that_the_search_on_the_host_finds(shape, factor, dtype):
    """Also where the threshold is too high or too low."""
    numel, k = 60_000, 600
    large = torch.arange(numel) % 150 == 0
    here = {
        "normal": row(numel),
        "few far larger": row(numel) * torch.where(large, 300, 1),
        "equal": torch.ones(numel),
        "zeros": torch.zeros(numel),
        "mostly zeros": row(numel) * large,
    }[shape].to(dtype)
    threshold = factor * here.abs().sort().values[-k]
    positions, count = select._reaching(here, k, threshold)
    expected = select._reaching_on_host(here, k, threshold.item())
    if shape == "equal":  # which of them is not defined
        assert int(count) == len(expected) == k
    else:
        assert torch.equal(positions[: int(count)], expected)


@pytest.mark.parametrize("how", select.SELECT)
def test_several_rows_are_selected_as_each_of_them_alone(how):
    rows = [row(numel, numel) for numel in (60_000, 7, 1000, 200_000)]
    ks = [60, 7, 10, 2000]
    together, alone = generator(), generator()
    for found, one, k in zip(select.SELECT[how](rows, ks, together), rows, ks):
        assert torch.equal(found, select.SELECT[how]([one], [k], alone)[0])


def waits_apart():
    """How often the host waits for each kind of selection, in a process that has the accelerator."""
    from tests import accelerator

    found = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        accelerator.install(monkeypatch)
        there = [row(numel, numel).to(accelerator.DEVICE) for numel in (60_000, 7, 1000, 200_000)]
        for how, encoding in product(select.SELECT, ENCODINGS):
            kept = [tensor.clone() for tensor in there]
            with counting() as counts:
                chosen = sparse.choose(kept, 0.01, select.SELECT[how], generator())
                payload = sparse.take(kept, chosen, encoding)
                sparse.mean([payload, payload], kept, encoding)
            found[how, encoding] = counts.engine_waits.total()
    return found


def test_the_host_waits_at_most_once_for_the_selection_of_all_rows():
    """On a GPU, for rows of all lengths. A second time it waits only for the number of fillers."""
    assert processes.apart(waits_apart) == {
        (how, encoding): (how == "sampled") + (encoding == "run_length")
        for how, encoding in product(select.SELECT, ENCODINGS)
    }


def test_random_entries_are_drawn_anew_and_evenly():
    stream = generator()
    drawn = torch.stack([select.random([row(100)], [10], stream)[0] for _ in range(2000)])
    share = torch.bincount(drawn.flatten(), minlength=100) / 2000
    assert float((share - 0.1).abs().max()) < 0.04


@pytest.mark.parametrize("how", ["exact", "sampled"])
def test_equal_entries_send_exactly_k(how):
    assert len(select.SELECT[how]([torch.ones(100_000)], [100], generator())[0]) == 100


def test_zeros_are_never_sent_above_a_sampled_threshold():
    assert len(select.sampled([torch.zeros(100_000)], [100], generator())[0]) == 0
    mostly = torch.zeros(100_000)
    mostly[::20_000] = 1.0
    assert select.sampled([mostly], [100], generator())[0].tolist() == [0, 20_000, 40_000, 60_000, 80_000]


POSITIONS = {
    "none": ([], 10),
    "first": ([0], 1),
    "last": ([9], 10),
    "all": (list(range(17)), 17),
    "a gap just short enough": ([65534], 65535),
    "a gap of one filler": ([65535], 65536),
    "a gap just below two fillers": ([2 * 65535 - 1], 200_000),
    "two fillers": ([2 * 65535], 200_000),
    "several gaps": ([3, 70_000, 70_001, 300_000], 300_001),
    **{
        f"{k} of {numel}": (torch.randperm(numel, generator=generator(k))[:k].sort().values.tolist(), numel)
        for numel, k in ((8, 3), (1000, 200), (1000, 201), (1_000_000, 13), (1_000_000, 14))
    },
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_come_back_from_the_bytes_of_the_formula(encoding, name):
    positions, numel = POSITIONS[name]
    code = sparse.encode_indices(torch.tensor(positions, dtype=torch.int64), numel, encoding)
    assert sparse.decode_indices(code, len(positions), encoding).tolist() == positions
    fillers = sum((b - a - 1) // 65535 for a, b in pairwise([-1, *positions]))
    runs = len(positions) + fillers
    sizes = {"int32": 4 * len(positions), "bitmap": -(-numel // 8), "run_length": 2 * runs}
    assert code.nbytes == sizes[encoding]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("how", select.SELECT)
@pytest.mark.parametrize("density", [1e-6, 0.01, 0.1, 1.0])
def test_sent_and_remaining_entries_add_up_to_the_tensor(encoding, how, density):
    here, before = tensors(), tensors()
    chosen = sparse.choose(here, density, select.SELECT[how], generator())
    payload = sparse.take(here, chosen, encoding)
    dense = sparse.mean([payload], before, encoding)
    for kept, sent, whole in zip(here, dense, before):
        assert torch.equal(kept + sent, whole)
    assert sum(int((sent != 0).sum()) for sent in dense) == payload["values"].numel()


@pytest.mark.parametrize(("precision", "relative"), [("bfloat16", 2**-8), ("float16", 2**-11)])
def test_a_cast_halves_the_bytes_and_rounds_once(precision, relative):
    here = [tensor.float() for tensor in tensors()]
    for rounded, exact in zip(half.cast(here, precision), here):
        assert rounded.element_size() == 2
        assert float(((rounded.float() - exact) / exact).abs().max()) <= relative
    assert half.cast(here, "full") is here
