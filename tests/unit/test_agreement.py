"""Whether all workers make the same calls, with payloads that match; and how payloads are laid out."""

import pytest
import torch

from thinwire.base.errors import MethodError
from thinwire.transport import endpoint, flat_tensors, messages
from thinwire.transport.call import Call
from thinwire.transport.endpoint import CallLog, first_difference
from thinwire.transport.metering import bytes_of_each


def log(*calls, in_words=True):
    made = CallLog(in_words)
    for call in calls:
        made.note(call)
    return made


def mean(*shape, dtype=torch.float32, kind="values"):
    return Call("mean", tensors=[torch.zeros(shape, dtype=dtype)], kind=kind)


def gather(size, ragged=False, dtype=torch.float32):
    return Call("gather", payload={"values": torch.zeros(size, dtype=dtype)}, ragged=ragged)


MANY = [torch.zeros(2, 3)] * 4
# Calls that differ, whether or not they are kept in words.
DIFFERENT = [
    (mean(2, 3), mean(2, 3, kind="weights")),
    (mean(2, 3), mean(3)),
    (mean(2, 3), mean(2, 3, dtype=torch.float64)),
    (mean(2, 3), Call("mean", tensors=[torch.zeros(1, 3)] * 2, kind="values")),
    (mean(2, 3), Call("broadcast", tensors=[torch.zeros(2, 3)], kind="values")),
    (mean(2, 3), gather(6)),
    (gather(3), gather(4)),
    (gather(3), gather(3, ragged=True)),
    (gather(3), gather(3, dtype=torch.int32)),
    (gather(3, ragged=True), gather(3, ragged=True, dtype=torch.int32)),
    (Call("broadcast", partner=1), Call("broadcast", partner=2)),
    (Call("push_pull", partner=1), Call("push_pull", partner=2)),
]
# Calls that differ in the shapes alone.
SHAPES = [
    (mean(2, 3), mean(3, 2)),
    (Call("mean", tensors=[*MANY, torch.zeros(2, 3)]), Call("mean", tensors=[*MANY, torch.zeros(3, 2)])),
]


@pytest.mark.parametrize(
    ("one", "other", "in_words"),
    [*((*pair, words) for pair in DIFFERENT for words in (False, True)), *((*pair, True) for pair in SHAPES)],
)
def test_another_call_has_another_digest(one, other, in_words):
    def digest(*calls):
        return log(*calls, in_words=in_words).digest

    assert digest(one) == digest(one)
    assert digest(one) != digest(other)
    assert digest(one, other) != digest(other, one)


@pytest.mark.parametrize("in_words", [False, True])
def test_workers_may_hand_over_ragged_payloads_of_any_size(in_words):
    one, other = (log(gather(size, ragged=True), in_words=in_words).digest for size in (3, 4))
    assert one == other


def test_the_last_calls_are_remembered_by_number(monkeypatch):
    monkeypatch.setattr(endpoint, "REMEMBERED", 2)
    made = log(mean(1), mean(2), mean(3))
    assert made.count == 3
    assert made.last() == {"2": "mean(values, float32[2])", "3": "mean(values, float32[3])"}
    assert log().last() == {}


def test_calls_are_compared_in_the_order_of_their_numbers(monkeypatch):
    calls = [mean(1)] * 12
    description = first_difference({0: log(*calls[:8], mean(2), mean(3)).last(), 1: log(*calls).last()})
    assert description.startswith("call 9:")
    # A worker that has made fewer calls does not disagree.
    assert first_difference({0: log(mean(1)).last(), 1: log(mean(1), mean(2)).last(), 2: {}}) is None
    # What one has forgotten is not compared.
    short = log(*calls[:10]).last()
    monkeypatch.setattr(endpoint, "REMEMBERED", 1)
    assert first_difference({0: short, 5: log(*calls[:9], mean(2)).last()}) == (
        "call 10: rank 0 calls mean(values, float32[1]) and rank 5 calls mean(values, float32[2])"
    )


def test_of_several_channels_that_disagree_all_ranks_name_the_same():
    """The order of a set of strings differs between processes."""
    calls = {f"node/{i}": {"calls": [i]} for i in range(20)}
    others = {key: {"calls": [-1]} for key in calls}
    assert endpoint.disagreeing([calls, others]) == "node/0"


def payload(**sizes):
    return {kind: torch.zeros(size) for kind, size in sizes.items()}


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


def test_tensors_lie_where_they_can_be_used_and_the_bytes_between_them_are_always_zero():
    payload = {"control": torch.ones(3, dtype=torch.bool), "values": torch.ones(1)}
    header, body = messages.pack(payload, ragged=False)
    assert messages.unpack(header, body)["values"].data_ptr() == body.data_ptr() + 8
    assert len(body) == 16
    assert body.tolist()[3:8] == [0] * 5
    assert body.tolist()[12:] == [0] * 4


def test_a_pool_reuses_what_was_returned_to_it():
    pool, like = flat_tensors.Pool(), [torch.zeros(2), torch.zeros(3)]
    first, second = pool.take(like), pool.take(like)
    assert first.data_ptr() != second.data_ptr()
    pool.give_back(first)
    assert pool.take([torch.zeros(5).double()]).dtype == torch.float64
    assert len(pool.take([torch.zeros(6)])) == 6
    assert pool.take([torch.zeros(5)]) is first


def test_chunks_hold_every_number_once_and_in_order():
    tensors = [torch.arange(7), torch.arange(7, 9).view(2, 1), torch.arange(0), torch.arange(9, 20)]
    chunks = list(flat_tensors.in_chunks(tensors, 4))
    assert torch.cat([piece for chunk in chunks for piece in chunk]).tolist() == list(range(20))
    assert all(sum(map(len, chunk)) < 2 * 4 for chunk in chunks)
    assert list(flat_tensors.in_chunks([], 4)) == []
