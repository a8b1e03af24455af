"""Whether all workers make the same calls, and how a difference is reported."""

import pytest
import torch

from thinwire.call import Call
from thinwire.errors import MethodError
from thinwire.transport import call_log
from thinwire.transport.call_difference import first_difference
from thinwire.transport.call_log import CallLog, disagreeing
from thinwire.transport.received_messages import require_received


def log(*calls):
    made = CallLog()
    for call in calls:
        made.note(call)
    return made


def mean(*shape, dtype=torch.float32, kind="values"):
    return Call("mean", tensors=[torch.zeros(shape, dtype=dtype)], kind=kind)


@pytest.mark.parametrize(
    "other",
    [
        mean(2, 3, kind="weights"),
        mean(3, 2),
        mean(6),
        mean(3, dtype=torch.float64),
        Call("mean", tensors=[torch.zeros(2, 3)] * 2, kind="values"),
        Call("broadcast", tensors=[torch.zeros(2, 3)], kind="values"),
        Call("gather", payload={"values": torch.zeros(6)}),
    ],
)
def test_another_call_has_another_digest(other):
    assert log(mean(2, 3)).digest == log(mean(2, 3)).digest
    assert log(mean(2, 3)).digest != log(other).digest
    assert log(mean(2, 3), other).digest != log(other, mean(2, 3)).digest


def test_what_must_agree_of_a_payload():
    def gather(size, ragged, dtype=torch.float32):
        return log(Call("gather", payload={"values": torch.zeros(size, dtype=dtype)}, ragged=ragged)).digest

    assert gather(3, ragged=True) == gather(4, ragged=True)
    assert gather(3, ragged=False) != gather(4, ragged=False)
    assert gather(3, ragged=False) != gather(3, ragged=True)
    for ragged in (False, True):
        assert gather(3, ragged) != gather(3, ragged, dtype=torch.int32)


@pytest.mark.parametrize("verb", ["broadcast", "push_pull"])
def test_the_source_and_the_servers_worker_must_agree(verb):
    assert log(Call(verb, partner=1)).digest != log(Call(verb, partner=2)).digest


def test_the_last_calls_are_remembered_by_number(monkeypatch):
    monkeypatch.setattr(call_log, "REMEMBERED", 2)
    made = log(mean(1), mean(2), mean(3))
    assert made.count == 3
    assert made.last() == {"2": "mean(values, float32[2])", "3": "mean(values, float32[3])"}
    assert CallLog().last() == {}


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
    monkeypatch.setattr(call_log, "REMEMBERED", 1)
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
