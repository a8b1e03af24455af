"""Codecs of small numbers and of chunks: they return what was put in, in the bytes of their formula."""

import math

import pytest
import torch

from thinwire.codecs import bits


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
