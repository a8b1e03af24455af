"""When the times of a run say nothing about its method: workers shared what they should not, or messages
did not go over NCCL."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from thinwire.base.placement import Cluster
from thinwire.config.expand import cells
from thinwire.records.time_validity import no_time_because
from thinwire.traffic.ledger import Ledger
from thinwire.traffic.wire_bytes import Wire
from thinwire.train import run_setup


def about(host, cores, device="cpu", **more):
    return {"host": host, "cores": cores, "device": device, **more}


@pytest.mark.parametrize(
    ("ranks", "nodes", "diagnosis"),
    [
        ([about("a", [0, 1]), about("a", [0, 1])], 1, None),
        ([about("a", [0]), about("a", [1]), about("b", [0]), about("b", [1])], 2, None),
        ([about("a", [0, 1])] * 4, 1, "4 workers shared 2 cores of a"),
        ([about("a", [0, 1])] * 2, 2, "its 2 nodes were 1 machine"),
        ([about("a", [0]), about("b", [0]), about("b", [1])], 3, "its 3 nodes were 2 machines"),
        ([about("a", [0], "gpu-1"), about("a", [0], "gpu-2")], 1, None),
        ([about("a", [0], "gpu-1"), about("a", [0], "gpu-1")], 1, "2 workers shared 1 GPU of a"),
        ([about("a", [0], "gpu-1", other_processes=0)], 1, None),
        ([about("a", [0], "gpu-1", other_processes=1)], 1, "1 other process used a GPU of a"),
        (
            [about("a", [0], "gpu-1", other_processes=0), about("b", [0], "gpu-1", other_processes=2)],
            2,
            "2 other processes used a GPU of b",
        ),
        ([about("a", [0], "gpu-1", messages_through_host=False)], 1, None),
        (
            [
                about("a", [0], "gpu-1", messages_through_host=False),
                about("a", [0], "gpu-2", messages_through_host=True),
            ],
            1,
            "its messages went through the memory of the hosts, and its other calls over NCCL",
        ),
    ],
)
def test_times_that_say_nothing_about_the_method_are_not_valid(ranks, nodes, diagnosis):
    assert no_time_because(ranks, Cluster(len(ranks), nodes)) == diagnosis


NOT_OVER_NCCL = "its messages went through the memory of the hosts, and its other calls over NCCL"


@pytest.fixture
def setup_of(monkeypatch):
    """The set-up of the first of two ranks, as if it had loaded a trainer with this ledger."""
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)

    def about(device):
        return {"host": "a", "cores": [0, 1], "device": "gpu-1" if device.type == "cuda" else "cpu"}

    monkeypatch.setattr(run_setup, "about_this_process", about)

    def make(ledger, device="cuda", backend=None):
        def share(own):
            return [*own, own[0] | {"device": "cpu" if device == "cpu" else "gpu-2"}]

        cell = replace(cells("demo")[0], workers=2, nodes=1, device=device, backend=backend)
        transport = SimpleNamespace(kind="measured", share=share)
        made = run_setup.RunSetup(cell, Path("results"), transport)
        worker = SimpleNamespace(ledger=ledger)
        task = SimpleNamespace(device=torch.device(device))
        made.trainer = SimpleNamespace(task=task, workers=[worker])
        return made

    return make


def ledger_of(*verbs):
    ledger = Ledger()
    for verb in verbs:
        ledger.add("world", verb, "weights", 8, 8, Wire(8, 8, 0))
    return ledger


def test_the_reason_is_recorded_when_training_has_sent_a_message(setup_of):
    """Also if it was sent before an interruption: the ledger is in the checkpoints."""
    ledger = ledger_of("mean")
    setup = setup_of(ledger)
    setup.note_ranks()
    assert setup.no_time_because is None
    ledger.add("world", "send", "weights", 8, 0, Wire(8, 0, 0))
    setup.note_ranks_again()
    assert setup.no_time_because == NOT_OVER_NCCL
    assert [rank["messages_through_host"] for rank in setup.provenance["ranks"]] == [True, True]


@pytest.mark.parametrize(
    ("verbs", "where"),
    [
        (("mean", "send"), {"device": "cpu"}),
        (("mean", "send"), {"backend": "gloo"}),
        (("mean", "gather", "broadcast", "push", "pull"), {}),
    ],
)
def test_without_messages_or_where_all_calls_use_gloo_there_is_a_time(setup_of, verbs, where):
    setup = setup_of(ledger_of(*verbs), **where)
    setup.note_ranks()
    assert setup.no_time_because is None
