"""What four workers do on every transport with servers and with messages; test_channels.py runs it."""

import torch

from tests.unit.channels import Echo, Sum, everywhere, floats, same
from thinwire.transport.call import Server

PAYLOAD = {
    "values": torch.tensor([1.5, -2.0, 0.1, 7.0], dtype=torch.bfloat16),
    "indices": torch.arange(12).reshape(6, 2)[:, 1],
    "scales": torch.tensor([3.25], dtype=torch.float64),
    "sizes": torch.tensor([3, 4], dtype=torch.int16),
    "weights": torch.tensor([True, False, True]),
    "buffers": torch.arange(7, dtype=torch.uint8)[::3],
    "control": torch.zeros(0, dtype=torch.int8),
}


def answers(me, payload, ragged):
    """The payload as each verb brings it."""
    gathered = me.world.gather(payload, ragged).wait()
    served = me.world.push_pull(1, payload, Echo({}), ragged).wait()
    me.world.send(payload, me.right, ragged)
    return [*gathered, served, me.world.receive(me.left).wait()]


@everywhere
def payloads_of_every_type_arrive_as_they_are(me):
    for ragged in (False, True):
        for answer in answers(me, PAYLOAD, ragged):
            assert list(answer) == list(PAYLOAD)
            for kind, tensor in PAYLOAD.items():
                assert answer[kind].dtype == tensor.dtype
                assert torch.equal(answer[kind], tensor)
    # The same as non-contiguous tensors, with sizes only where it was said, beside those of the payload.
    assert me.rows()["world", "gather", "values"] == (16, 48)
    assert me.rows()["world", "gather", "sizes"] == (2 * 4 + 56, 3 * (2 * 4 + 56))


@everywhere
def only_the_elements_of_a_payload_arrive(me):
    """Attributes of the tensors that were passed do not arrive."""
    hung = torch.nn.Parameter(torch.ones(3))
    hung.secret = me.rank
    grown = torch.ones(2, requires_grad=True)
    with torch.enable_grad():
        payload = {"values": torch.arange(7.0)[::7], "weights": hung, "scales": grown * 2}
        for answer in answers(me, payload, False) + answers(me, payload, True):
            assert [same(answer[kind], *payload[kind].tolist()) for kind in payload] == [True] * 3
            for tensor in answer.values():
                assert type(tensor) is torch.Tensor
                assert tensor.stride() == (1,)
                assert not tensor.requires_grad
                assert not vars(tensor)


@everywhere
def no_payload_at_all_is_legal(me):
    for ragged in (False, True):
        assert answers(me, {}, ragged) == [{}] * 6
    assert me.ledger.total().payload_push == 0


@everywhere
def a_server_answers_all_and_lives_on_one_worker(me):
    server = Sum({})
    answer = me.world.push_pull(6, {"values": floats(me.rank, 1.0)}, server).wait()
    assert same(answer["weights"], 6.0, 4.0)
    assert server.memory == ({"asked": 1} if me.rank == 2 else {})
    assert me.rows() == {("world", "push", "values"): (8, 0), ("world", "pull", "weights"): (0, 8)}
    total = me.ledger.total()
    assert (total.wire_received, total.wire_sent) == ((24, 24) if me.rank == 2 else (8, 8))


@everywhere
def servers_on_all_workers_answer_at_once_and_in_any_order(me):
    """Every worker has pushed to all servers before it waits for the first of them."""
    server = Sum({})
    keys = [*range(8), "a name"]
    pending = [me.world.push_pull(key, {"values": floats(me.rank, i)}, server) for i, key in enumerate(keys)]
    for i, one in reversed(list(enumerate(pending))):
        assert same(one.wait()["weights"], 6.0, 4.0 * i)
    home = sum(b"a name") % 4
    assert server.memory["asked"] == 2 + (me.rank == home)


class Counting(Server):
    """Answers with its state, and goes on with it; keeps what was pushed."""

    def update(self, pushes):
        state = self.memory.setdefault("sum", torch.zeros(1))
        state.add_(sum(push["values"] for push in pushes))
        self.memory.setdefault("pushed", []).extend(push["values"] for push in pushes)
        return {"weights": state, "values": torch.cat(self.memory["pushed"])}


@everywhere
def a_server_may_go_on_with_its_answers_and_keep_what_was_pushed(me):
    server, pending = Counting({}), []
    for step in range(3):
        push = floats(10 * step + me.rank)
        pending.append(me.world.push_pull(0, {"values": push}, server, ragged=True))
        if step == 2:
            pending[-1].wait()
            push.fill_(-1.0)
    found = [one.wait() for one in pending]
    assert [float(answer["weights"]) for answer in found] == [6, 52, 138]
    pushed = [10 * step + rank for step in range(3) for rank in me.mates]
    assert [answer["values"].tolist() for answer in found] == [pushed[:4], pushed[:8], pushed]
    push = floats(-1.0)
    last = me.world.push_pull(0, {"values": push}, server, ragged=True).wait()["values"]
    assert same(last, *pushed, *[-1.0] * 4)


@everywhere
def pushes_of_a_series_are_answered_each_by_its_server(me):
    """Of all sizes, several for one worker, none for another one; also a second time."""
    for ragged in (False, False, True):
        servers = [Sum({}) for _ in range(6)]
        payloads = ({"values": torch.full((key,), float(me.rank + key))} for key in range(6))
        pending = me.world.push_pulls(zip((0, 1, 2, 4, 8, "a"), payloads, servers), ragged)
        for key, one in reversed(list(enumerate(pending))):
            assert same(one.wait()["weights"], *[6.0 + 4 * key] * key)
    assert me.world.push_pulls([]) == []
    assert me.rows()["world", "push", "values"] == (3 * 4 * 15, 0)


@everywhere
def a_reduce_scatter_gives_each_worker_the_mean_of_its_part(me):
    """In 16 bits it does not overflow; it is counted as pushes to the owner of each part."""
    for dtype, large in ((torch.float32, 0.0), (torch.float64, 0.0), (torch.float16, 40_000.0)):
        parts = [torch.full((2 + part,), large + me.rank + part, dtype=dtype) for part in me.mates]
        mean = me.world.reduce_scatter(parts, "weights").wait()
        assert mean.dtype == dtype
        wanted = [large + 1.5 + me.rank] * (2 + me.rank)
        assert same(mean, *torch.tensor(wanted, dtype=dtype).tolist())
        assert same(parts[0], *[torch.tensor(large + me.rank, dtype=dtype).item()] * 2)
    assert me.rows() == {("world", "push", "weights"): ((4 + 8 + 2) * 14, 0)}
    received = (4 + 8 + 2) * 3 * (2 + me.rank)
    assert me.ledger.total().wire_received == received
    assert me.ledger.total().messages == 12
    assert me.world.reduce_scatter([torch.zeros(0)] * 4).wait().tolist() == []


@everywhere
def messages_arrive_in_the_order_in_which_they_were_sent(me):
    """Their answers may be read in another order."""
    for number in range(5):
        for to in me.mates:
            me.world.send({"values": torch.full((number,), 10.0 * me.rank + number)}, to, ragged=True)
    pending = {(n, source): me.world.receive(source) for n in range(5) for source in me.mates}
    for (number, source), one in reversed(pending.items()):
        assert same(one.wait()["values"], *[10.0 * source + number] * number)


@everywhere
def a_ring_of_20_mb(me):
    coming = me.world.receive(me.left)
    me.world.send({"values": torch.full((5_000_000,), float(me.rank))}, me.right)
    assert torch.equal(coming.wait()["values"], torch.full((5_000_000,), float(me.left)))
    size = 4 * 5_000_000
    assert me.rows() == {("world", "send", "values"): (size, 0), ("world", "receive", "values"): (0, size)}


@everywhere
def what_a_worker_sends_to_itself_costs_nothing(me):
    own = torch.ones(3)
    me.world.send({"values": own}, to=me.rank).wait()
    own.fill_(-1)
    assert same(me.world.receive(source=me.rank).wait()["values"], 1, 1, 1)
    assert not me.ledger.rows


@everywhere
def sizes_that_the_receiver_cannot_know_are_metered(me):
    """8 bytes a kind, for pushes, answers and messages as well as for gathered payloads."""
    payload = {"values": torch.ones(me.rank + 1)}
    me.world.push_pull(0, payload, Echo({}), ragged=True).wait()
    me.world.send(payload, to=me.right, ragged=True).wait()
    me.world.receive(source=me.left).wait()
    found = {verb: me.rows()["world", verb, "sizes"] for verb in ("push", "pull", "send", "receive")}
    assert found == {"push": (8, 0), "pull": (0, 8), "send": (8, 0), "receive": (0, 8)}
