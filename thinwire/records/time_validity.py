"""Decides whether the times of a run with a process for each worker are valid."""

import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thinwire.base.nvidia_smi import cores_near, processes_on
from thinwire.base.placement import Cluster, on_gpu

if TYPE_CHECKING:
    import torch


def about_this_process(device: "torch.device") -> dict[str, object]:
    """Where this rank runs: its host, its Slurm node, the cores that it may use, and its device.

    On a GPU, also its name, the cores near it, and the number of other processes that compute on it.
    """
    about: dict[str, object] = {
        "host": socket.gethostname(),
        "node": os.environ.get("SLURMD_NODENAME", socket.gethostname()),
        "cores": sorted(os.sched_getaffinity(0)),
        "device": "cpu",
    }
    if on_gpu(device):
        import torch

        properties = torch.cuda.get_device_properties(device)
        uuid = str(properties.uuid).removeprefix("GPU-")
        # One of the processes is this one. Its own id does not tell which: containers have other ids.
        others = max(0, processes_on(f"GPU-{uuid}") - 1)
        near = cores_near(f"GPU-{uuid}")
        about |= {"device": uuid, "gpu": properties.name, "cores_near_gpu": near, "other_processes": others}
    return about


RESUMED = "it was interrupted, and its clocks add the seconds of several attempts"


def no_time_because(ranks: Sequence[dict[str, Any]], cluster: Cluster, interruptions: int = 0) -> str | None:
    """Why the times of a run say nothing about its method, in one clause; None if they are valid.

    Args:
        ranks: what `about_this_process` gave on each rank. With NCCL, also whether it has sent messages,
            which go through the memory of the host.
        cluster: that the cell describes.
        interruptions: how often the run has resumed from a checkpoint. Only the last attempt's ranks are
            known, and each attempt has loaded its kernels anew.
    """
    if interruptions:
        return RESUMED
    names = sorted({rank["gpu"] for rank in ranks if "gpu" in rank})  # earlier records have none
    if len(names) > 1:
        return f"its GPUs were of {len(names)} kinds: {', '.join(names)}"
    hosts = list(dict.fromkeys(rank["host"] for rank in ranks))
    if len(hosts) < cluster.nodes:
        return f"its {cluster.nodes} nodes were {len(hosts)} machine{'' if len(hosts) == 1 else 's'}"
    for host in hosts:
        here = [rank for rank in ranks if rank["host"] == host]
        gpus = {rank["device"] for rank in here} - {"cpu"}
        cores = {core for rank in here for core in rank["cores"]}
        if gpus and len(gpus) < len(here):
            return f"{len(here)} workers shared {len(gpus)} GPU of {host}"
        if not gpus and len(cores) < len(here):
            return f"{len(here)} workers shared {len(cores)} cores of {host}"
        if others := max(rank.get("other_processes", 0) for rank in here):
            return f"{others} other {'process' if others == 1 else 'processes'} used a GPU of {host}"
    if any(rank.get("messages_through_host") for rank in ranks):
        return "its messages went through the memory of the hosts, and its other calls over NCCL"
    return None
