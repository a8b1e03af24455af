"""Finds out which rank this process is, from the environment variables of srun or torchrun."""

import os
import socket
from collections.abc import Callable, Mapping

from thinwire.errors import UserError
from thinwire.launch.rendezvous_address import LOOPBACK, address_of, first_host, port_of_launch
from thinwire.transport.rank_placement import Placement
from thinwire.worker_placement import Cluster

# After a rank ends, the others have this time to notice and to write their reports. Then srun ends them.
WAIT_SECONDS = 30


# Gives the secret of a run, from the name that its launcher has for the launch.
SecretOf = Callable[[str], bytes]


def from_environment(
    secret_of: SecretOf, variables: Mapping[str, str] = os.environ, launch: int = 0
) -> Placement | None:
    """The placement that srun or torchrun gave this process; None if it was started by hand.

    Args:
        secret_of: gives the secret of a launch, from its name.
        variables: of the environment.
        launch: the number of the launch, among those of one step of Slurm.

    Raises:
        UserError: variables are missing or make no sense.
    """
    if "TORCHELASTIC_RUN_ID" in variables or {"RANK", "WORLD_SIZE"} <= set(variables):
        return _torchrun(secret_of, variables)
    # The batch script itself runs in no step. A step of one task starts its ranks itself.
    if "SLURM_STEP_ID" in variables and _number(variables, "SLURM_STEP_NUM_TASKS", "srun") > 1:
        return _slurm(secret_of, variables, launch)
    return None


def require_match(cluster: Cluster, ranks: int, launcher: str) -> None:
    """Require that as many ranks were started as the cell has workers.

    Raises:
        UserError: the numbers differ; the message has the right command.
    """
    if ranks != cluster.workers:
        command = " ".join(srun(cluster.workers, cluster.nodes))
        raise UserError(
            f"{launcher}: there are {ranks} ranks, but the cell has {cluster.workers} workers on "
            f"{cluster.nodes} nodes: {command} thinwire run ..."
        )


def srun(workers: int, nodes: int) -> list[str]:
    """The command that starts a rank for each worker, with consecutive ranks on each node."""
    return [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={workers}",
        f"--ntasks-per-node={workers // nodes}",
        "--distribution=block",
        "--kill-on-bad-exit=0",
        f"--wait={WAIT_SECONDS}",
    ]


def require_places(cluster: Cluster, nodes: list[str]) -> None:
    """Require that the ranks are distributed over the nodes as the cell describes it.

    Args:
        cluster: that the cell describes.
        nodes: the name of each rank's node.

    Raises:
        UserError: they are not; the message says where they are, and has the right command.
    """
    described = [cluster.node_of(worker) for worker in range(cluster.workers)]
    if len(set(zip(described, nodes))) != cluster.nodes or len(set(nodes)) != cluster.nodes:
        command = " ".join(srun(cluster.workers, cluster.nodes))
        raise UserError(
            f"the cell describes {cluster.nodes} nodes with {cluster.workers_per_node} workers each, but the "
            f"ranks are on {', '.join(nodes)}: {command} thinwire run ..."
        )


def _torchrun(secret_of: SecretOf, variables: Mapping[str, str]) -> Placement:
    group, launch = variables.get("GROUP_RANK", "0"), variables.get("TORCHELASTIC_RUN_ID")
    on_one_host = launch and variables.get("LOCAL_WORLD_SIZE") == variables.get("WORLD_SIZE")
    return Placement(
        rank=_number(variables, "RANK", "torchrun"),
        workers=_number(variables, "WORLD_SIZE", "torchrun"),
        place=_number(variables, "LOCAL_RANK", "torchrun"),
        node=f"{socket.gethostname()}/{group}",
        host=LOOPBACK if on_one_host else _text(variables, "MASTER_ADDR", "torchrun"),
        # torchrun has its own store at MASTER_PORT.
        port=_number(variables, "MASTER_PORT", "torchrun") + (launch is not None),
        launcher="torchrun",
        secret=secret_of(f"torchrun {launch}"),
    )


def _slurm(secret_of: SecretOf, variables: Mapping[str, str], launch: int) -> Placement:
    job, step = _number(variables, "SLURM_JOB_ID", "srun"), _number(variables, "SLURM_STEP_ID", "srun")
    on_one_host = variables.get("SLURM_STEP_NUM_NODES") == "1"
    given = "MASTER_PORT" in variables
    return Placement(
        rank=_number(variables, "SLURM_PROCID", "srun"),
        workers=_number(variables, "SLURM_STEP_NUM_TASKS", "srun"),
        place=_number(variables, "SLURM_LOCALID", "srun"),
        node=variables.get("SLURMD_NODENAME") or socket.gethostname(),
        host=variables.get("MASTER_ADDR")
        or (LOOPBACK if on_one_host else None)
        or address_of(first_host(_text(variables, "SLURM_STEP_NODELIST", "srun"))),
        port=_number(variables, "MASTER_PORT", "srun") if given else port_of_launch(job, step, launch),
        launcher="srun",
        secret=secret_of(f"srun {job}.{step}.{launch}"),
    )


def _text(variables: Mapping[str, str], name: str, launcher: str) -> str:
    if not variables.get(name):
        raise UserError(f"{launcher} gave this process no {name}: start all ranks with one {launcher}")
    return variables[name]


def _number(variables: Mapping[str, str], name: str, launcher: str) -> int:
    text = _text(variables, name, launcher)
    if not text.isdecimal():
        raise UserError(f"{name} is {text!r}, which is not a number: start all ranks with one {launcher}")
    return int(text)
