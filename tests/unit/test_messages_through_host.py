"""A run on GPUs that sends messages between two workers has no time: they do not go over NCCL."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from thinwire.config.expand_suite import cells
from thinwire.traffic.ledger import Ledger
from thinwire.traffic.wire_bytes import Wire
from thinwire.train import run_setup

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


@pytest.mark.parametrize("where", [{"device": "cpu"}, {"backend": "gloo"}])
def test_where_all_calls_use_gloo_messages_have_time(setup_of, where):
    setup = setup_of(ledger_of("mean", "send"), **where)
    setup.note_ranks()
    assert setup.no_time_because is None


def test_collectives_and_parameter_servers_have_time(setup_of):
    setup = setup_of(ledger_of("mean", "gather", "broadcast", "push", "pull"))
    setup.note_ranks()
    assert setup.no_time_because is None
