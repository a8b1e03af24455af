"""Each kind of wait for a device is found and named with its line, and so is what a GPU refuses."""

import re

import pytest
import torch

from tests import processes
from tests.contract import test_gpus as gpus
from tests.contract.planted import subject
from tests.host_waits import counting

WAITS = {
    "loss.item()": "reads a value",
    "bool(loss > 0)": "reads a value",
    "'{:.3f}'.format(loss)": "reads a value",
    "row[: (row > 0).sum()]": "reads a value",
    "torch.equal(row, row + 1)": "reads a value",
    "row.nonzero()": r"size depends on values \(nonzero\)",
    "row.unique()": r"size depends on values \(unique\)",
    "row.masked_select(row > 0)": r"size depends on values \(masked_select\)",
    "row.repeat_interleave((row > 0).long())": r"size depends on values \(repeat_interleave without",
    "row[row > 0]": "indexes with a mask",
    "row.__setitem__(row > 0, 0)": "indexes with a mask",
    "row[torch.arange(3)]": "copies an index from the host",
    "row.__setitem__(torch.arange(3, device=row.device), 0)": "copies a number from the host",
    "torch.tensor([1, 2], device=row.device)": "copies data from the host",
    "row.new_tensor([1, 2])": "copies data from the host",
    "torch.randperm(5, generator=generator).to(row.device)": "copies data from the host",
    "torch.arange(5).to(row.device, non_blocking=True)": "copies data from the host",
    "row[:5].copy_(torch.arange(5))": "copies data from the host",
    "row.tolist()": "copies data to the host",
    "row.cpu()": "copies data to the host",
    "row.to('cpu')": "copies data to the host",
    "int(moved_to(row.device, torch.arange(5))[0])": "reads a value",
}
WAITS_FOR_NOTHING = [
    "row.to(row.device)",
    "row.double()",
    "torch.where(row > 0, row, 0).max()",
    "(row > 0).nonzero_static(size=3)",
    "row[torch.arange(3, device=row.device)]",
    "row.__setitem__(torch.arange(1, device=row.device), row[:1].clone())",
    "row.index_fill(0, torch.arange(3, device=row.device), 0)",
    "torch.full((1,), 3, device=row.device)",
    "row * torch.tensor(2.0)",
    "int(torch.randint(5, (1,), generator=generator))",
    "torch.randperm(5, generator=generator).sort().values.tolist()",
    "moved_to(row.device, torch.arange(5))",
    "row.repeat_interleave(torch.ones_like(row).long(), output_size=row.numel())",
]
RAISES = {
    "row + torch.ones(9)": "expected all tensors on one device",
    "torch.rand(3, generator=generator, device=row.device)": "expected a generator of pretend:0",
    "row.numpy()": "numpy.* is not supported",
}


def outcomes_apart(statements):
    """Why the host waits in each statement, or what it raises; in a process that has the accelerator."""
    from tests import accelerator
    from thinwire.base.placement import moved_to

    found = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        accelerator.install(monkeypatch)
        row = torch.linspace(-1, 1, 9).to(accelerator.DEVICE)
        names = {"torch": torch, "row": row, "loss": row.sum(), "moved_to": moved_to}
        for statement in statements:
            with counting() as counts:
                try:
                    eval(statement, {**names, "generator": torch.Generator()})
                except (RuntimeError, TypeError) as error:
                    found.append([str(error)])
                    continue
            found.append(list(counts.engine_waits))
    return found


@pytest.fixture(scope="module")
def outcomes():
    statements = [*WAITS, *WAITS_FOR_NOTHING, *RAISES]
    return dict(zip(statements, processes.apart(outcomes_apart, statements), strict=True))


@pytest.mark.parametrize("statement", [*WAITS, *RAISES])
def test_what_waits_or_mixes_devices_is_told(statement, outcomes):
    (told,) = outcomes[statement]
    assert re.search((WAITS | RAISES)[statement], told)
    assert re.search(r"tests/contract/test_host_waits.py:\d+", told) or "numpy" in statement


@pytest.mark.parametrize("statement", WAITS_FOR_NOTHING)
def test_an_operation_that_waits_for_nothing_passes(statement, outcomes):
    assert outcomes[statement] == []


def test_a_wait_of_a_method_is_named_with_its_line(tmp_path):
    planted = subject(tmp_path, "self.norm = self.run.loss.item()")
    with pytest.raises(
        AssertionError, match="in step 1, the hosts of 4 workers would wait 4 times"
    ) as caught:
        gpus.test_hosts_wait_for_their_gpus_only_where_sizes_depend_on_values(planted)
    lines = (tmp_path / "planted.py").read_text().rstrip().splitlines()
    assert lines[-1].strip() == "self.norm = self.run.loss.item()"
    assert f"planted.py:{len(lines)} reads a value (4 times)" in str(caught.value)


def test_a_method_that_trains_otherwise_on_a_gpu_is_refused(tmp_path):
    planted = subject(
        tmp_path,
        """
        if self.run.gradients[0].device.type != "cpu":
            self.run.gradients[0].neg_()
        """,
    )
    with pytest.raises(AssertionError):
        gpus.test_trains_on_an_accelerator_as_on_a_cpu(planted)


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
