"""Traces in files."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.traced import Everything, trace_of
from thinwire.base.errors import UserError
from thinwire.trace import trace_file
from thinwire.trace.trace_file import CALLS, SPANS, Trace, common_zero_ns, step_seconds


@pytest.fixture(scope="module")
def trace():
    return trace_of(Everything)


def test_a_trace_is_read_as_it_was_written(trace, tmp_path):
    trace_file.write(tmp_path, trace)
    back = trace_file.read(tmp_path)
    assert back.spans.equals(trace.spans)
    assert back.calls.equals(trace.calls)


def test_parts_of_processes_make_one_trace(trace, tmp_path):
    parts = []
    for worker in range(4):
        part = Trace(*(table.filter(pc.field("worker") == worker) for table in trace))
        trace_file.write(tmp_path / str(worker), part)
        parts.append(trace_file.read(tmp_path / str(worker)))
    whole = trace_file.merged(parts)
    assert whole.spans.to_pylist() == trace.spans.to_pylist()
    assert whole.calls.to_pylist() == trace.calls.to_pylist()


def test_a_trace_without_calls_is_a_trace(tmp_path):
    empty = trace_file.of_recorders([], 0)
    trace_file.write(tmp_path, empty)
    assert trace_file.read(tmp_path).calls.num_rows == 0
    assert step_seconds(empty) == {}


@pytest.mark.parametrize("name", [SPANS, CALLS])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_file_that_was_cut_short_is_one_sentence(trace, tmp_path, name, kept):
    trace_file.write(tmp_path, trace)
    path = tmp_path / name
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(UserError, match="is damaged or incomplete: make it again with `thinwire trace`"):
        trace_file.read(tmp_path)


def test_a_file_that_is_missing_or_something_else_is_one_sentence(trace, tmp_path):
    with pytest.raises(UserError, match=r"spans\.parquet is not there: `thinwire trace` makes it"):
        trace_file.read(tmp_path)
    trace_file.write(tmp_path, trace)
    pq.write_table(pa.table({"step": [1]}), tmp_path / CALLS)
    with pytest.raises(UserError, match=r"calls\.parquet has other columns than a trace of this version"):
        trace_file.read(tmp_path)


def test_the_seconds_of_a_step_are_all_its_spans(trace):
    spans = trace.spans.to_pandas()
    inner = spans[spans["step"] >= 0]
    lengths = (inner["end_seconds"] - inner["begin_seconds"]).groupby(inner["step"]).sum() / 4
    seconds = step_seconds(trace)
    assert {"forward", "backward", "method", "server", "transport", "wait", "harness"} <= set(seconds)
    assert 0 < sum(seconds.values()) <= lengths.max() * len(seconds)
    one_step = Trace(trace.spans.filter(pc.field("step") == 1), trace.calls)
    assert sum(step_seconds(one_step).values()) == pytest.approx(lengths[1])


class Machines:
    """Answers as other processes would, whose clocks are ahead by known times."""

    def __init__(self, machines, ahead_ns):
        self.machines, self.ahead_ns = machines, ahead_ns

    def share(self, own):
        if own is None:
            return [None] * len(self.machines)
        _, after = own
        return [
            [machine, [time + ahead for time in after]]
            for machine, ahead in zip(self.machines, self.ahead_ns)
        ]


HOUR = 3_600_000_000_000


@pytest.mark.parametrize(
    ("machines", "ahead_ns", "zero_ahead_ns"),
    [("aaa", (0, 500, 900), 0), ("aabb", (0, 100, HOUR, HOUR + 70), HOUR)],
    ids=["one machine", "several machines"],
)
def test_processes_count_from_the_same_moment(monkeypatch, machines, ahead_ns, zero_ahead_ns):
    """Processes of one machine leave a barrier one after the other; clocks of several are compared there."""
    monkeypatch.setattr("thinwire.trace.trace_file._machine", lambda: machines[-1])
    share, answers = Machines(machines, ahead_ns).share, []

    def remember(own):
        answers.append(share(own))
        return answers[-1]

    zero_ns, found = common_zero_ns(remember)
    assert found == len(set(machines))
    assert zero_ns - answers[-1][0][1][-1] == zero_ahead_ns
