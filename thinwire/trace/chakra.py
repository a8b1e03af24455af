"""A trace as Chakra execution traces, for simulators: a file `chakra.N.et` for each rank.

A file consists of length-delimited messages: one `GlobalMetadata`, and then the nodes. `chakra.groups.json`
has the members of each group of workers, whose numbers the nodes give as `pg_name`.
"""

import json
from pathlib import Path
from typing import Any

from google.protobuf.proto import serialize_length_prefixed

from thinwire.files import aside, write_text
from thinwire.trace.chakra_nodes import Operation, WorkerGraph
from thinwire.trace.chakra_schema import VERSION, GlobalMetadata, Node, NodeType
from thinwire.trace.matched_calls import MatchedCalls
from thinwire.trace.trace_file import Trace

GROUPS = "chakra.groups.json"
# Of the attributes that are integers, those of 32 bits.
_SHORT = ("comm_priority", "comm_src", "comm_dst", "comm_tag")
_MICRO = 1e6


def write(folder: Path, trace: Trace, cpu: bool) -> list[Path]:
    """Write a trace as Chakra files, and return their paths.

    Args:
        folder: of the files.
        trace: of all workers, or of some that stand for others.
        cpu: did the workers compute on a CPU?

    Raises:
        CannotWrite: the disk is full, or writing is not permitted.
    """
    spans, calls = trace.spans.to_pylist(), trace.calls.to_pylist()
    first = min((span["begin_seconds"] for span in spans), default=0.0)
    matched = MatchedCalls(spans, calls)
    paths = []
    for worker in sorted({span["worker"] for span in spans}):
        graph = WorkerGraph(worker, matched)
        graph.add(
            [span for span in spans if span["worker"] == worker],
            [call for call in calls if call["worker"] == worker],
        )
        paths.append(folder / f"chakra.{worker}.et")
        with aside(paths[-1]) as scratch, scratch.open("wb") as file:
            serialize_length_prefixed(GlobalMetadata(version=VERSION), file)
            for operation in graph.operations:
                serialize_length_prefixed(_message(operation, first, cpu), file)
    groups = {str(number): list(members) for (_, members), number in matched.groups.items()}
    write_text(folder / GROUPS, json.dumps(groups, indent=1) + "\n")
    return [*paths, folder / GROUPS]


def _message(operation: Operation, first: float, cpu: bool) -> Any:
    # Both ends are rounded, and not the length, so that rounding does not add up along the chain.
    begin = round((operation.begin_seconds - first) * _MICRO)
    end = round((operation.end_seconds - first) * _MICRO)
    node = Node(
        id=operation.number,
        name=operation.name,
        type=operation.kind,
        ctrl_deps=operation.after,
        data_deps=operation.needs,
        start_time_micros=begin,
        duration_micros=end - begin,
    )
    computes = operation.kind == NodeType.COMP_NODE
    node.attr.add(name="is_cpu_op", bool_val=cpu and computes)
    if computes:
        # The number of operations is unknown; the duration was measured.
        node.attr.add(name="num_ops", int64_val=0)
    for name, value in operation.integers.items():
        node.attr.add(name=name, **{"int32_val" if name in _SHORT else "int64_val": value})
    if operation.group is not None:
        node.attr.add(name="pg_name", string_val=str(operation.group))
    return node
