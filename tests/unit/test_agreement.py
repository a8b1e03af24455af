"""Whether all workers make the same calls, with payloads that match, and how a difference is reported."""

import pytest
import torch

from thinwire.base.errors import MethodError
from thinwire.transport import agreement
from thinwire.transport.agreement import CallLog, disagreeing, first_difference, require_received
from thinwire.transport.call import Call
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


@pytest.mark.parametrize("in_words", [False, True])
@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_call_has_another_digest(one, other, in_words):
    def digest(*calls):
        return log(*calls, in_words=in_words).digest

    assert digest(one) == digest(one)
    assert digest(one) != digest(other)
    assert digest(one, other) != digest(other, one)


def test_shapes_of_equal_size_differ_where_calls_are_kept_in_words():
    assert log(mean(2, 3)).digest != log(mean(3, 2)).digest
    many = [torch.zeros(2, 3)] * 5
    last = [*many[:-1], torch.zeros(3, 2)]
    assert log(Call("mean", tensors=many)).digest != log(Call("mean", tensors=last)).digest


@pytest.mark.parametrize("in_words", [False, True])
def test_workers_may_hand_over_ragged_payloads_of_any_size(in_words):
    digests = {log(gather(size, ragged=True), in_words=in_words).digest for size in (3, 4)}
    assert len(digests) == 1


def test_the_last_calls_are_remembered_by_number(monkeypatch):
    monkeypatch.setattr(agreement, "REMEMBERED", 2)
    made = log(mean(1), mean(2), mean(3))
    assert made.count == 3
    assert made.last() == {"2": "mean(values, float32[2])", "3": "mean(values, float32[3])"}
    assert log().last() == {}


def test_the_first_difference_is_described():
    same = log(mean(1), mean(2)).last()
    other = log(mean(1), mean(3), mean(4)).last()
    assert first_difference({0: same, 1: same, 5: other}) == (
        "call 2: rank 0 calls mean(values, float32[2]) and rank 5 calls mean(values, float32[3])"
    )


def test_a_worker_that_has_made_fewer_calls_does_not_disagree():
    assert first_difference({0: log(mean(1)).last(), 1: log(mean(1), mean(2)).last(), 2: {}}) is None
    assert first_difference({}) is None


def test_calls_that_one_remembers_and_another_has_forgotten_are_not_compared(monkeypatch):
    short = log(*[mean(1)] * 10).last()
    monkeypatch.setattr(agreement, "REMEMBERED", 1)
    assert first_difference({0: short, 1: log(*[mean(1)] * 9, mean(2)).last()}) == (
        "call 10: rank 0 calls mean(values, float32[1]) and rank 1 calls mean(values, float32[2])"
    )


def test_numbers_of_calls_are_ordered_as_numbers():
    calls = [mean(1)] * 12
    description = first_difference({0: log(*calls[:8], mean(2), mean(3)).last(), 1: log(*calls).last()})
    assert description.startswith("call 9:")


def summary(calls=(1, 7), sent=(0, 0), received=(0, 0)):
    return {"calls": list(calls), "sent": list(sent), "received": list(received)}


def test_a_channel_is_compared_among_its_own_members():
    node_0, node_1 = {"node/0": summary((3, 1))}, {"node/2": summary((4, 2))}
    assert disagreeing([node_0, node_0, node_1, node_1]) is None
    assert disagreeing([node_0, node_0, node_1, {"node/2": summary((4, 9))}]) == "node/2"
    assert disagreeing([node_0, {"node/0": summary((2, 1))}, node_1, node_1]) == "node/0"


def test_messages_that_were_not_received_are_named():
    sound = [{"world/0": summary(sent=(2, 1), received=(2, 3))}, {"world/0": summary((1, 7), (3, 0), (1, 0))}]
    require_received(sound)
    sound[1]["world/0"]["received"] = [0, 0]
    with pytest.raises(MethodError, match=r"rank 0 sent 1 messages to rank 1 on run.world, which"):
        require_received(sound)


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
