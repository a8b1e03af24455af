"""Whether all workers hand over payloads that match, and how a difference is reported."""

import pytest
import torch

from thinwire.errors import MethodError
from thinwire.transport.matching_payloads import bytes_of_each


def payload(**sizes):
    return {kind: torch.zeros(size) for kind, size in sizes.items()}


def test_sizes_are_transposed():
    each = [payload(values=1, indices=2), payload(values=1, indices=2)]
    assert bytes_of_each(each, ragged=False) == {"values": [4, 4], "indices": [8, 8]}
    assert bytes_of_each([payload(values=1), payload(values=0)], ragged=True) == {
        "values": [4, 0],
        "sizes": [8, 8],
    }
    assert bytes_of_each([{}, {}], ragged=False) == {}


def test_sizes_that_differ_must_be_declared():
    with pytest.raises(MethodError, match=r"values of different sizes, \[4, 8\] bytes: say ragged=True"):
        bytes_of_each([payload(values=1), payload(values=2)], ragged=False)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(
    ("other", "description"),
    [
        (payload(values=1), r"rank 2 values float32\[\]: hand over the same kinds"),
        (payload(indices=1, values=1), r"rank 2 indices float32\[\], values float32\[\]: "),
        (
            {"values": torch.zeros(1), "indices": torch.zeros(1, dtype=torch.int32)},
            r"rank 2 values float32\[\], indices int32\[\]: ",
        ),
        ({}, "rank 2 nothing: .* an empty tensor where there is nothing"),
    ],
)
def test_all_workers_pass_the_same_kinds_in_one_order_and_of_one_type(other, description, ragged):
    same = payload(values=1, indices=1)
    with pytest.raises(MethodError, match=rf"rank 0 hands over values float32\[\], .*, and {description}"):
        bytes_of_each([same, same, other], ragged)
