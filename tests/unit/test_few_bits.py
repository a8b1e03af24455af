"""Codecs of small numbers and of chunks: they return what was put in, in the bytes of their formula."""

import math

import pytest
import torch

from thinwire.codecs import bits, blocks, chunks, dct


@pytest.mark.parametrize("width", [0, 1, 2, 3, 4, 7, 8, 12, 16])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 8, 1001])
def test_numbers_come_back_from_as_many_bytes_as_their_bits_need(width, count):
    numbers = torch.randint(2**width, (count,), generator=torch.Generator().manual_seed(width))
    packed = bits.pack(numbers, width)
    assert packed.dtype == torch.uint8
    assert packed.shape == (math.ceil(count * width / 8),)
    assert torch.equal(bits.unpack(packed, count, width), numbers)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_numbers_of_any_type_and_shape_are_packed(dtype):
    numbers = torch.arange(6, dtype=dtype).view(2, 3)
    assert bits.pack(numbers, 3).tolist() == [0b10001000, 0b11000110, 0b10]


@pytest.mark.parametrize(("count", "expected"), [(1, 0), (2, 1), (3, 2), (4096, 12), (4097, 13)])
def test_the_width_is_the_least_that_tells_the_numbers_apart(count, expected):
    assert bits.width(count) == expected


@pytest.mark.parametrize("value", [0.0, 1e-45])
def test_a_block_without_a_scale_is_zeros(value):
    row = torch.full((3,), value)
    assert blocks.dequantise(blocks.quantise(row, 4, 2), 3, 4, 2).tolist() == [0, 0, 0]


def test_halves_go_to_the_even_neighbour():
    row = torch.tensor([7.0, 0.5, 1.5, -2.5])
    assert blocks.dequantise(blocks.quantise(row, 4, 4), 4, 4, 4).tolist() == [7, 0, 2, -2]


@pytest.mark.parametrize("block", [None, 1, 3, 128])
@pytest.mark.parametrize("count", [0, 1, 8, 1001])
def test_signs_have_the_mean_magnitude_of_their_block_and_the_bytes_of_the_formula(count, block):
    row = torch.randn(count, generator=torch.Generator().manual_seed(3))
    codec = blocks.Signs(block)
    (payload,) = codec.encode([row])
    assert payload["values"].nbytes == math.ceil(count / 8)
    assert payload["scales"].nbytes == 4 * math.ceil(count / (block or max(1, count)))
    assert {kind: len(tensor) for kind, tensor in payload.items()} == codec.sizes(count)
    back = codec.decode(payload, count)
    assert torch.equal(back >= 0, row >= 0)
    for before, after in zip(row.split(block or max(1, count)), back.split(block or max(1, count))):
        torch.testing.assert_close(after.abs(), before.abs().mean().expand_as(after).nan_to_num())


def test_zero_counts_as_positive():
    assert blocks.from_signs(blocks.signs(torch.tensor([0.0, -0.0, -1.0, 1.0])), 4).tolist() == [1, 1, -1, 1]


def side(n, limit):
    """The largest divisor of n up to the limit."""
    return max(d for d in range(1, limit + 1) if n % d == 0)


def cosines(n, frequency):
    return torch.cos(math.pi * (2 * torch.arange(n, dtype=torch.float64) + 1) * frequency / (2 * n))


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
        wave = torch.outer(cosines(h, u), cosines(w, v))
        torch.testing.assert_close(coefficients[0, u * w + v], (first * wave).sum() / wave.norm())


@pytest.mark.parametrize("values", [[2.5], [1.5, 1.5, 1.5], [0.0, 0.0]])
def test_values_that_are_all_equal_come_back_exactly(values):
    numbers, table = chunks.quantise(torch.tensor(values), 2)
    assert table[numbers].tolist() == values
