"""NCCL adds and begins calls in one order and ends no process, unless the user has chosen otherwise."""

import os

from thinwire.transport import nccl_settings
from thinwire.transport.rank_placement import Address, SharedFile


def test_what_the_user_has_set_is_kept(monkeypatch):
    """A change to a new dictionary, because the settings stay in the environment."""
    monkeypatch.setattr(os, "environ", {"NCCL_ALGO": "Tree", "PATH": "/bin"})
    nccl_settings.choose_nccl_settings(Address("first", 1, "srun 7.0.1"))
    assert os.environ == {
        "NCCL_ALGO": "Tree",
        "NCCL_PROTO": "Simple",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_LAUNCH_ORDER_IMPLICIT": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
        "PATH": "/bin",
    }


def test_on_one_machine_nccl_listens_on_the_loopback_alone(monkeypatch):
    monkeypatch.setattr(os, "environ", {"NCCL_SOCKET_IFNAME": "eth0"})
    nccl_settings.choose_nccl_settings(SharedFile("meeting", "lo"))
    assert os.environ["NCCL_SOCKET_IFNAME"] == "lo"
