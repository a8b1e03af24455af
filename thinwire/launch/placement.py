"""Which rank a process is, on which node, and where the ranks of its run meet.

Ranks that srun or torchrun has started find that in environment variables. Ranks that are forks are placed by
their parent: on this machine, or on the nodes of a network that it emulates.
"""

import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress

from thinwire.base.errors import UserError
from thinwire.base.placement import Address, Cluster, Placement, SharedFile
from thinwire.config.cell import Cell
from thinwire.emulation.network import INTERFACE, MANAGEMENT, Network, require_emulable

# After a rank ends, the others have this time to notice and to write their reports. Then srun ends them.
WAIT_SECONDS = 30
# Where ranks meet if all of them are on one host, and the interface over which they connect there.
LOOPBACK, _LOOPBACK_INTERFACE = "127.0.0.1", "lo"
# Below the ports that Linux gives to outgoing connections, from 32768 on.
_FIRST_PORT, _PORTS = 20000, 12768


def from_environment(variables: Mapping[str, str] = os.environ, launch: int = 0) -> Placement | None:
    """The placement that srun or torchrun gave this process; None if it was started by hand.

    Args:
        variables: of the environment.
        launch: its number among those of one step of Slurm.

    Raises:
        UserError: variables are missing or make no sense.
    """
    if "TORCHELASTIC_RUN_ID" in variables or {"RANK", "WORLD_SIZE"} <= set(variables):
        return _torchrun(variables)
    # The batch script itself runs in no step. A step of one task starts its ranks itself.
    if "SLURM_STEP_ID" in variables and _number(variables, "SLURM_STEP_NUM_TASKS", "srun") > 1:
        return _slurm(variables, launch)
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


# Each rank keeps to its cores. It sees all GPUs of its node, because otherwise those of two ranks could not
# reach each other directly.
_BOUND = ("--cpu-bind=cores", "--gpu-bind=none")


def srun(workers: int, nodes: int, on_gpus: bool = False) -> list[str]:
    """The command that starts a rank for each worker, with consecutive ranks on each node."""
    return [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={workers}",
        f"--ntasks-per-node={workers // nodes}",
        "--distribution=block",
        "--kill-on-bad-exit=0",
        f"--wait={WAIT_SECONDS}",
        *(_BOUND if on_gpus else ()),
    ]


def require_places(cluster: Cluster, nodes: list[str]) -> None:
    """Require that the ranks are on these nodes, each one by its name, as the cell describes it.

    Raises:
        UserError: they are not; the message has the right command.
    """
    described = [cluster.node_of(worker) for worker in range(cluster.workers)]
    if len(set(zip(described, nodes))) != cluster.nodes or len(set(nodes)) != cluster.nodes:
        command = " ".join(srun(cluster.workers, cluster.nodes))
        raise UserError(
            f"the cell describes {cluster.nodes} nodes with {cluster.workers_per_node} workers each, but the "
            f"ranks are on {', '.join(nodes)}: {command} thinwire run ..."
        )


def _torchrun(variables: Mapping[str, str]) -> Placement:
    group, launch = variables.get("GROUP_RANK", "0"), variables.get("TORCHELASTIC_RUN_ID")
    on_one_host = launch and variables.get("LOCAL_WORLD_SIZE") == variables.get("WORLD_SIZE")
    return Placement(
        rank=_number(variables, "RANK", "torchrun"),
        workers=_number(variables, "WORLD_SIZE", "torchrun"),
        place=_number(variables, "LOCAL_RANK", "torchrun"),
        node=f"{socket.gethostname()}/{group}",
        launcher="torchrun",
        meeting=Address(
            LOOPBACK if on_one_host else _text(variables, "MASTER_ADDR", "torchrun"),
            # torchrun has its own store at MASTER_PORT.
            _number(variables, "MASTER_PORT", "torchrun") + (launch is not None),
            f"torchrun {launch}",
        ),
    )


def _slurm(variables: Mapping[str, str], launch: int) -> Placement:
    job, step = _number(variables, "SLURM_JOB_ID", "srun"), _number(variables, "SLURM_STEP_ID", "srun")
    on_one_host = variables.get("SLURM_STEP_NUM_NODES") == "1"
    given = "MASTER_PORT" in variables
    return Placement(
        rank=_number(variables, "SLURM_PROCID", "srun"),
        workers=_number(variables, "SLURM_STEP_NUM_TASKS", "srun"),
        place=_number(variables, "SLURM_LOCALID", "srun"),
        node=variables.get("SLURMD_NODENAME") or socket.gethostname(),
        launcher="srun",
        meeting=Address(
            variables.get("MASTER_ADDR")
            or (LOOPBACK if on_one_host else None)
            or address_of(first_host(_text(variables, "SLURM_STEP_NODELIST", "srun"))),
            _number(variables, "MASTER_PORT", "srun") if given else port_of_launch(job, step, launch),
            f"srun {job}.{step}.{launch}",
        ),
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


def port_of_launch(job: int, step: int, launch: int) -> int:
    """A port that the ranks of a launch in a Slurm step can tell without asking each other."""
    return _FIRST_PORT + (job * 97 + step + launch) % _PORTS


def first_host(nodes: str) -> str:
    """The first host of a list in Slurm's notation: `rack[1-2]n[03-05,9],login` gives `rack1n03`."""
    first = re.match(r"(?:[^,\[\]]|\[\w+[^\]]*\])+", nodes)
    if first is None:
        raise UserError(f"SLURM_STEP_NODELIST is {nodes!r}, which is not a list of hosts")
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", first[0])


def address_of(node: str) -> str:
    """The address of a Slurm node: its name, or what Slurm has on record if that name has no address."""
    with suppress(socket.gaierror):
        socket.getaddrinfo(node, None)
        return node
    with suppress(OSError):
        command = ["scontrol", "--oneliner", "show", "node", node]
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        if known := re.search(r"\bNodeAddr=(\S+)", output):
            return known[1]
    return node


@contextmanager
def emulated(cell: Cell) -> Iterator[Network | None]:
    """The emulated network of a cell, which vanishes with the last of its ranks; None if it has none.

    Raises:
        UserError: this machine cannot emulate it.
    """
    if cell.cluster is None:
        yield None
        return
    require_emulable(cell)
    link = cell.cluster.link
    with closing(Network(cell.nodes, link.rate_bits_per_second, link.latency_seconds)) as network:
        yield network


@contextmanager
def placements(cell: Cell, network: Network | None) -> Iterator[list[Placement]]:
    """The placement of each worker of a cell: on this machine, or on the nodes of an emulated network.

    They meet in a file that has no name: forks of this process have it open, and no other user can open it.
    """
    here, per_node = socket.gethostname(), cell.workers // cell.nodes
    descriptor = os.memfd_create("thinwire")
    try:
        os.fchmod(descriptor, 0o600)
        interfaces = (INTERFACE, MANAGEMENT) if network else (_LOOPBACK_INTERFACE, None)
        meeting = SharedFile(f"/proc/self/fd/{descriptor}", *interfaces)
        yield [
            Placement(
                rank,
                cell.workers,
                rank % per_node,
                f"node{rank // per_node}" if network else here,
                "fork",
                meeting,
            )
            for rank in range(cell.workers)
        ]
    finally:
        os.close(descriptor)
