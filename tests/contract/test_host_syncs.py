"""Each kind of host synchronisation is found and named with its line, and nothing else is."""

import pytest

from tests.contract import test_gpus as gpus
from tests.contract.planted import subject

WAITS = {
    "self.run.loss.item()": "reads a value",
    "bool(self.run.loss > 0)": "reads a value",
    "'{:.3f}'.format(self.run.loss)": "reads a value",
    "row[: (row > 0).sum()]": "reads a value",
    "torch.equal(row, row + 1)": "reads a value",
    "row.nonzero()": r"size depends on values \(nonzero\)",
    "row.unique()": r"size depends on values \(unique\)",
    "row.masked_select(row > 0)": r"size depends on values \(masked_select\)",
    "row.repeat_interleave((row > 0).long())": r"size depends on values \(repeat_interleave without",
    "row[row > 0]": "indexes with a mask",
    "row.__setitem__(row > 0, 0)": "indexes with a mask",
    "torch.tensor([1, 2], device=row.device)": r"from the host to the GPU \(torch.tensor\)",
    "row.new_tensor([1, 2])": r"from the host to the GPU \(new_tensor\)",
    "torch.randperm(5, generator=self.run.generator).to(row.device)": r"from the host to the GPU \(to\)",
    "row[:5].copy_(torch.arange(5))": r"between the host and the GPU \(copy_\)",
    "row.tolist()": r"from the GPU to the host \(tolist\)",
    "row.cpu()": r"from the GPU to the host \(cpu\)",
    "int(torch.arange(5).to(row.device, non_blocking=True)[0])": "reads a value",
    "row.to('cpu')": r"from the GPU to the host \(to\)",
    "row.numpy()": r"from the GPU to the host \(numpy\)",
}
WAITS_FOR_NOTHING = [
    "row.to(row.device)",
    "row.double()",
    "torch.where(row > 0, row, 0).max()",
    "(row > 0).nonzero_static(size=3)",
    "row[torch.arange(3, device=row.device)]",
    "row.index_fill(0, torch.arange(3, device=row.device), 0)",
    "torch.full((1,), 3, device=row.device)",
    "int(torch.randint(5, (1,), generator=self.run.generator))",
    "torch.randperm(5, generator=self.run.generator).sort().values.tolist()",
    "torch.arange(5).to(row.device, non_blocking=True)",
    "row.repeat_interleave(torch.ones_like(row).long(), output_size=row.numel())",
]


def check(tmp_path, statement):
    """Hold a method with this statement to the check. The statement is in the last line of its file."""
    body = f"row = self.run.gradients[0].flatten()\n{statement}\n"
    with pytest.MonkeyPatch.context() as monkeypatch:
        gpus.test_hosts_wait_for_their_gpus_only_where_sizes_depend_on_values(
            subject(tmp_path, body), monkeypatch
        )


@pytest.mark.parametrize("statement", WAITS)
def test_an_operation_that_waits_is_named_with_its_line(statement, tmp_path):
    with pytest.raises(AssertionError, match=WAITS[statement]) as caught:
        check(tmp_path, statement)
    lines = (tmp_path / "planted.py").read_text().rstrip().splitlines()
    assert lines[-1].strip() == statement
    assert f"planted.py:{len(lines)} " in str(caught.value)
    assert "in step 1, the hosts of 4 workers would wait 4 times" in str(caught.value)


@pytest.mark.parametrize("statement", WAITS_FOR_NOTHING)
def test_an_operation_that_waits_for_nothing_passes(statement, tmp_path):
    check(tmp_path, statement)


def test_two_channels_in_two_orders_are_refused_and_named(tmp_path, monkeypatch):
    planted = subject(
        tmp_path,
        """
        channels = [self.run.world, self.run.node]
        if self.run.world.rank == 2:
            channels.reverse()
        for pending in [channel.mean(self.run.gradients[:1]) for channel in channels]:
            pending.wait()
        """,
    )
    with pytest.raises(AssertionError, match=r"worker 1 calls run.world.mean, worker 2 calls run.node.mean"):
        gpus.test_calls_of_all_channels_have_one_order(planted, monkeypatch)
