"""Traces as Chakra execution traces, read by a reader that knows only the published schema."""

import json
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from google.protobuf.proto import parse_length_prefixed

from tests.traced import Everything, trace_of
from thinwire.trace import chakra
from thinwire.trace.chakra_schema import CollectiveCommType, GlobalMetadata, Node, NodeType

SHORT = {"comm_priority", "comm_src", "comm_dst", "comm_tag"}
WORKERS = 4
# From schema/protobuf/et_def.proto of mlcommons/chakra: numbers of the fields of a node and of an attribute.
ID, NAME, TYPE, CTRL_DEPS, DATA_DEPS, START, DURATION, ATTR = 1, 2, 3, 4, 5, 6, 7, 10
INT32_VAL, INT64_VAL, BOOL_VAL, STRING_VAL = 7, 9, 27, 29


@pytest.fixture(scope="module")
def trace():
    return trace_of(Everything)


@pytest.fixture(scope="module")
def folder(trace, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chakra")
    paths = chakra.write(folder, trace, cpu=True)
    names = [*(f"chakra.{worker}.et" for worker in range(WORKERS)), "chakra.groups.json"]
    assert [path.name for path in paths] == names
    return folder


@pytest.fixture(scope="module")
def nodes(folder):
    """The nodes of each worker."""
    return [read(folder / f"chakra.{worker}.et") for worker in range(WORKERS)]


def read(path):
    with path.open("rb") as file:
        assert parse_length_prefixed(GlobalMetadata, file).version
        found = []
        while (node := parse_length_prefixed(Node, file)) is not None:
            found.append(node)
    return found


def attributes(node):
    return {each.name: getattr(each, each.WhichOneof("value")) for each in node.attr}


def communications(nodes, kind):
    return [attributes(node) for node in nodes if node.type == kind]


def test_dependencies_form_a_graph_without_circles(nodes):
    for own in nodes:
        seen = set()
        for node in own:
            assert node.id not in seen
            assert {*node.ctrl_deps, *node.data_deps} <= seen, "a node depends only on earlier ones"
            seen.add(node.id)


def test_what_a_worker_computes_is_a_chain(nodes):
    for own in nodes:
        chain = [
            node for node in own if node.type == NodeType.COMP_NODE and not node.name.startswith("server")
        ]
        assert not chain[0].ctrl_deps
        for node, following in pairwise(chain):
            assert list(following.ctrl_deps) == [node.id]


def test_every_node_has_the_attributes_of_its_kind_in_their_types(nodes):
    needed = {
        NodeType.COMP_NODE: {"is_cpu_op", "num_ops"},
        NodeType.COMM_COLL_NODE: {"is_cpu_op", "comm_type", "comm_size", "comm_priority", "pg_name"},
    }
    message = {"is_cpu_op", "comm_size", "comm_src", "comm_dst", "comm_tag", "comm_priority", "pg_name"}
    for node in (node for own in nodes for node in own):
        assert set(attributes(node)) - {"comm_src"} == needed.get(node.type, message) - {"comm_src"}
        for each in node.attr:
            wanted = {"is_cpu_op": "bool_val", "pg_name": "string_val"}.get(each.name)
            assert each.WhichOneof("value") == wanted or wanted is None
            if wanted is None:
                assert each.WhichOneof("value") == ("int32_val" if each.name in SHORT else "int64_val")


def test_collectives_have_the_bytes_of_their_calls(trace, nodes):
    types = {
        "mean": CollectiveCommType.ALL_REDUCE,
        "gather": CollectiveCommType.ALL_GATHER,
        "broadcast": CollectiveCommType.BROADCAST,
    }
    for worker, own in enumerate(nodes):
        found = Counter()
        for each in communications(own, NodeType.COMM_COLL_NODE):
            found[each["comm_type"]] += each["comm_size"]
        called = Counter()
        for call in trace.calls.to_pylist():
            if call["worker"] == worker and call["verb"] in types and not call["ragged"]:
                called[types[call["verb"]]] += call["sent_bytes"]
        assert found == called
        assert all(called.values())


def test_sends_and_receives_have_the_bytes_of_their_calls(trace, nodes):
    for worker, own in enumerate(nodes):
        sent = received = 0
        for call in trace.calls.to_pylist():
            if call["worker"] != worker:
                continue
            others = len(call["members"]) - 1
            if call["verb"] in ("send", "receive"):
                sent, received = sent + call["sent_bytes"], received + call["received_bytes"]
            elif call["verb"] == "gather" and call["ragged"]:
                sent, received = sent + others * call["sent_bytes"], received + call["received_bytes"]
            elif call["verb"] == "push_pull":
                hosts = call["members"][call["partner"]] == worker
                # The pushes are of one size here.
                sent += others * call["received_bytes"] if hosts else call["sent_bytes"]
                received += others * call["sent_bytes"] if hosts else call["received_bytes"]
        assert sum(each["comm_size"] for each in communications(own, NodeType.COMM_SEND_NODE)) == sent
        assert sum(each["comm_size"] for each in communications(own, NodeType.COMM_RECV_NODE)) == received


def test_every_send_has_its_receive(nodes):
    def ends(kind):
        keys = ("comm_src", "comm_dst", "comm_tag", "comm_size", "pg_name")
        return [tuple(each[key] for key in keys) for own in nodes for each in communications(own, kind)]

    sends, receives = ends(NodeType.COMM_SEND_NODE), ends(NodeType.COMM_RECV_NODE)
    assert sends
    assert sorted(sends) == sorted(receives)
    assert len(set(sends)) == len(sends), "a tag tells the messages of two workers apart"


def test_all_graphs_together_can_be_carried_out(folder, nodes):
    """Like a simulator: a receive ends after its send, and a collective after all members have come to it."""
    groups = json.loads((folder / "chakra.groups.json").read_text())
    done, waiting = [set() for _ in nodes], [list(own) for own in nodes]
    sent, come, collectives = set(), defaultdict(set), {}
    for worker, own in enumerate(nodes):
        before = Counter()
        for node in own:
            if node.type == NodeType.COMM_COLL_NODE:
                group = attributes(node)["pg_name"]
                collectives[worker, node.id] = (group, before[group])
                before[group] += 1
    while any(waiting):
        moved = False
        for worker, own in enumerate(waiting):
            for node in list(own):
                if not {*node.ctrl_deps, *node.data_deps} <= done[worker]:
                    continue
                about = attributes(node)
                message = tuple(about.get(key) for key in ("comm_src", "comm_dst", "comm_tag"))
                if node.type == NodeType.COMM_RECV_NODE and message not in sent:
                    continue
                if node.type == NodeType.COMM_SEND_NODE:
                    sent.add(message)
                if node.type == NodeType.COMM_COLL_NODE:
                    collective = collectives[worker, node.id]
                    come[collective].add(worker)
                    if come[collective] != set(groups[collective[0]]):
                        continue
                own.remove(node)
                done[worker].add(node.id)
                moved = True
        assert moved, "the workers wait for each other for ever"


def test_groups_name_the_members_of_every_channel(trace, folder, nodes):
    groups = json.loads((folder / "chakra.groups.json").read_text())
    used = {attributes(n)["pg_name"] for own in nodes for n in own if n.type != NodeType.COMP_NODE}
    assert used <= groups.keys()
    assert {tuple(each) for each in groups.values()} == {tuple(m) for m in trace.calls["members"].to_pylist()}


def test_the_server_computes_on_its_own_worker(trace, nodes):
    spans = trace.spans.to_pandas()
    spans = spans[spans["activity"] == "server"]
    served = sum(spans["end_seconds"] - spans["begin_seconds"])
    servers = [[node for node in own if node.name.startswith("server")] for own in nodes]
    assert [len(each) for each in servers] == [3, 3, 3, 0], "keys 0, 1 and 2 in each of three steps"
    assert served > 0
    chains = [node for own in nodes for node in own if node.name.startswith(("server update", "server _"))]
    assert not chains, "no worker's chain contains what the server does"


def test_the_bytes_are_those_of_the_published_schema(folder):
    """Reads a file by the numbers of the published fields alone."""
    content = (folder / "chakra.1.et").read_bytes()
    messages = list(of_length(content))
    assert dict(fields(messages[0]))[1] == b"0.0.4"
    kinds, sizes = Counter(), 0
    for message in messages[1:]:
        found = fields(message)
        assert {number for number, _ in found} <= {
            ID,
            NAME,
            TYPE,
            CTRL_DEPS,
            DATA_DEPS,
            START,
            DURATION,
            ATTR,
        }
        kinds[dict(found)[TYPE]] += 1
        for number, value in found:
            attribute = dict(fields(value)) if number == ATTR else {}
            assert attribute.keys() <= {1, INT32_VAL, INT64_VAL, BOOL_VAL, STRING_VAL}
            if attribute.get(1) == b"comm_size":
                sizes += attribute[INT64_VAL]
    assert set(kinds) == {4, 5, 6, 7}  # COMP, COMM_SEND, COMM_RECV, COMM_COLL
    assert sizes == sum(attributes(node).get("comm_size", 0) for node in read(folder / "chakra.1.et"))


def of_length(content):
    at = 0
    while at < len(content):
        length, at = varint(content, at)
        yield content[at : at + length]
        at += length
    assert at == len(content)


def fields(message):
    found, at = [], 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            value, at = varint(message, at)
        else:
            assert key & 7 == 2
            length, at = varint(message, at)
            value, at = message[at : at + length], at + length
        found.append((key >> 3, value))
    return found


def varint(content, at):
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
