"""Which rank a process is, on which node, where the ranks of its run meet, and which GPUs a job has.

Ranks that srun or torchrun has started find that in environment variables. Ranks that are forks are placed by
their parent; see `thinwire.launch.local_processes`.

Slurm gives each job GPUs of its own. On a workstation, a job claims a GPU with a lock on a file that is named
after the GPU's UUID. The file is in the temporary folder, so all pipelines of a user respect it. The ranks of
a job are forks of the process that holds the lock, so they hold it too. The system releases it when the last
of them has ended.
"""

import os
import re
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path

from thinwire.base.errors import UserError
from thinwire.base.files import try_lock, writing
from thinwire.base.folders import variable
from thinwire.base.nvidia_smi import visible_gpus
from thinwire.base.placement import Address, Cluster, Placement
from thinwire.config.cell import Cell

# After a rank ends, the others have this time to notice and to write their reports. Then srun ends them.
WAIT_SECONDS = 30
# Where ranks meet if all of them are on one host.
LOOPBACK = "127.0.0.1"
# Below the ports that Linux gives to outgoing connections, from 32768 on.
_FIRST_PORT, _PORTS = 20000, 12768
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_POLL_SECONDS = 1.0  # until it is seen whether a GPU is free


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


def gpus_of(cell: Cell) -> int:
    """The GPUs of a cell on each of its nodes: one for each process with workers; none on CPUs."""
    if cell.device != "cuda":
        return 0
    return cell.workers // cell.nodes if cell.transport == "processes" else 1


def gpus_of_preparation(cell: Cell) -> int:
    """The GPUs of a cell's preparation, which is in one process."""
    return int(cell.device == "cuda")


@contextmanager
def gpus_claimed(number: int) -> Iterator[None]:
    """Let this process and its forks see only so many GPUs, which no other job sees; wait for them.

    If there are fewer GPUs, all of them are claimed. Nothing is claimed in a job of Slurm, or if no GPU is
    known.

    Raises:
        UserError: the folder of the locks cannot be used.
    """
    there = visible_gpus() if number and "SLURM_JOB_ID" not in os.environ else []
    if not there:
        yield
        return
    with claim(there, min(number, len(there))) as own, variable(_VISIBLE, ",".join(own)):
        yield


@contextmanager
def claim(gpus: Sequence[str], number: int) -> Iterator[list[str]]:
    """Claim this number of the GPUs with these UUIDs, all at once, and give their UUIDs."""
    folder = _folder()
    told = False
    while True:
        with ExitStack() as held:
            free = (gpu for gpu in gpus if _lock(folder / f"{gpu}.lock", held))
            own = list(islice(free, number))
            if len(own) == number:
                yield own
                return
        if not told:
            print(f"waits for {number} of {len(gpus)} GPUs: other runs have claimed them", flush=True)
            told = True
        time.sleep(_POLL_SECONDS)


def _lock(path: Path, held: ExitStack) -> bool:
    """Lock a file until `held` is closed; False if another process has locked it."""
    with ExitStack() as opened:
        with writing(path):
            file = opened.enter_context(path.open("w"))
        if not try_lock(file, "set TMPDIR to a folder on a local disk"):
            return False
        held.push(opened.pop_all())
    return True


def _folder() -> Path:
    """The folder of the locks, which belongs to this user alone."""
    path = Path(tempfile.gettempdir()) / f"thinwire-gpus-{os.geteuid()}"
    with writing(path):
        path.mkdir(mode=0o700, exist_ok=True)
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise UserError(f"{path} is no folder of yours: remove it, or set TMPDIR to another folder")
    return path
