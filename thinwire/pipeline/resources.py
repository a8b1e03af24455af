"""What jobs ask for: cores of this machine; nodes, ranks, GPUs and memory of a cluster with Slurm.

docs/cluster.md states the arithmetic of the memory.
"""

import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.base.signals import BEFORE_TIME_LIMIT, SAVING_SECONDS
from thinwire.config.cell import Cell
from thinwire.config.yaml_file import Module
from thinwire.pipeline.snakefile import Call

if TYPE_CHECKING:
    from snakemake.io import InputFiles

# A signal before the time limit, on which a job saves its state.
SIGNAL = f"--signal={BEFORE_TIME_LIMIT.name.removeprefix('SIG')}@{SAVING_SECONDS}"
# How the command of a job begins that is perhaps a step of Slurm; a step does not inherit its job's cores.
IN_STEP = "SRUN_CPUS_PER_TASK={resources.cpus_per_task} {resources.step} "
# Of a process: torch, CUDA, batches and activations.
PROCESS_MEGABYTES = 4_000
# Of a job that decodes the images of a data set.
CORES_TO_DECODE = 16
# Of a replica, as multiples of its weights: weights, gradients, momentum, three more for what a method
# remembers, and six for a checkpoint, which is a copy.
COPIES_OF_WEIGHTS = 12
_MOST_GROWTH = 3


def cores_of_block(block: Sequence[Cell], blocks: int, cores: int | None) -> int:
    """All cores for a timed block, because whatever runs beside it would lengthen its times.

    Other blocks take a core for each run at the same time. On a cluster Slurm counts the cores, and a block
    has one for each worker, or a single one.

    Args:
        block: what the job trains.
        blocks: of the whole grid.
        cores: of this machine; None on a cluster.
    """
    if block[0].has_ranks:
        return cores or block[0].workers
    return runs_at_once(block, blocks, cores)


def cores_of_preparation(cell: Cell, cores: int | None) -> int:
    """All cores for a preparation of timed runs, whose seconds stand beside theirs; otherwise one."""
    return (cores or 1) if cell.has_ranks else 1


def runs_at_once(block: Sequence[Cell], blocks: int, cores: int | None) -> int:
    """The runs of a block at the same time, such that all blocks end earliest.

    Blocks of equal runs are assumed. Of several numbers that end as early, it is the smallest. Timed runs
    have their machines for themselves.
    """
    if block[0].has_ranks or block[0].device == "cuda" or cores is None:
        return 1

    def rounds(runs: int) -> int:
        return math.ceil(blocks / (cores // runs)) * math.ceil(len(block) / runs)

    return min(range(1, min(len(block), cores) + 1), key=rounds)


def nodes(cell: Cell) -> int:
    return cell.nodes if cell.transport == "processes" else 1


def ranks(cell: Cell) -> int:
    """The ranks of a job: one for each worker, or one for all of them."""
    return cell.workers if cell.transport == "processes" else 1


def gres(call: Call, gpus: int) -> str:
    """So many GPUs of a node as Slurm counts them: `gpu:4`, or `gpu:a100:4` with the profile's `gpu_type`."""
    name = ":".join(["gpu", *filter(None, [call.defaults.get("gpu_type")])])
    return f"{name}:{gpus}" if gpus else ""


def cpus_per_rank(cell: Cell) -> int:
    """More with a GPU, which processors have to feed; emulated nodes are all in one task."""
    if cell.transport == "emulated":
        return cell.workers
    return 4 if cell.device == "cuda" else 1


def launcher(cell: Cell) -> str:
    """What starts the ranks; nothing for a single one."""
    return "srun" if ranks(cell) > 1 else ""


def without_step(call: Call, launched_by: str = "") -> dict[str, str]:
    """The resource `mpi`: where a rule has it, the plug-in for Slurm starts no step, which loses SLURM_CONF.

    It is what starts the ranks of the job, empty for a single one. What starts the tasks of a job array has
    none, because with `mpi` it starts the first for all of them.
    """
    return {} if call.starts_task else {"mpi": launched_by}


def step_of_one_task(call: Call) -> str:
    """What starts a command in a step of Slurm; nothing on this machine.

    Slurm sends signals to steps, and none to the batch script in which the jobs of snakemake begin.
    """
    return "srun --nodes=1 --ntasks=1" if call.in_job else ""


def step(call: Call, cell: Cell) -> str:
    """What starts the command of a cell; several ranks it starts in a step by itself."""
    return "" if launcher(cell) else step_of_one_task(call)


def more_options(call: Call, cell: Cell) -> str:
    """Further options of the job of a cell.

    They are as many ranks on each node, and a signal before the time limit, on which ranks save their state.
    Nodes on which time is measured are for this job alone, unless the profile has `exclusive: false`.
    """
    shared = call.defaults.get("exclusive", "true").lower() == "false"
    alone = "--exclusive " if cell.kind == "measured" and not shared else ""
    return f"{alone}--ntasks-per-node={ranks(cell) // nodes(cell)} {SIGNAL}"


def memory(call: Call, cells: Sequence[Cell], one_process: bool = False) -> dict[str, Callable[..., int]]:
    """The resource `mem_mb` of a rule; empty if the user has set it, or if no job is sent from here.

    Args:
        call: of Snakemake.
        cells: of all jobs of the rule, which have the memory of the largest.
        one_process: has the job a single process, however its cells are trained?
    """
    if not _plans_memory(call):
        return {}

    # snakemake recognises the names of the arguments.
    def mem_mb(wildcards: object, input: "InputFiles", attempt: int) -> int:  # noqa: A002
        given = [input.data] if isinstance(input.data, str) else input.data
        data = data_bytes(given)
        return max(megabytes_of_node(cell, data, one_process, attempt) for cell in cells)

    return {"mem_mb": mem_mb}


def memory_of_a_process(call: Call) -> dict[str, Callable[..., int]]:
    """The resource `mem_mb` of a job without replicas or a data set in memory; empty as that of `memory`."""
    if not _plans_memory(call):
        return {}
    return {"mem_mb": lambda wildcards, attempt: _growth(attempt) * PROCESS_MEGABYTES}


def _plans_memory(call: Call) -> bool:
    return call.plans and call.defaults.get("mem_mb") == "0"


def _growth(attempt: int) -> int:
    """The factor of what is estimated; limited, because jobs also have later attempts for want of time."""
    return min(attempt, _MOST_GROWTH)


def megabytes_of_node(cell: Cell, data: int, one_process: bool = False, attempt: int = 1) -> int:
    """Megabytes for a node of a cell.

    Args:
        cell: to train.
        data: bytes of its data set, of which the processes of a node share one copy.
        one_process: whether one process has all workers, however the cell is trained.
        attempt: from 1; later ones have more for processes and replicas, which are estimates.
    """
    alone = one_process or cell.transport == "inprocess"
    replicas = cell.workers // cell.nodes if cell.transport == "processes" and not alone else cell.workers
    processes = 1 if alone else replicas
    weights = weight_bytes(cell.model, cell.data)
    estimated = processes * PROCESS_MEGABYTES * 1e6 + replicas * COPIES_OF_WEIGHTS * weights
    return math.ceil((data + _growth(attempt) * estimated) / 1e6)


def data_bytes(manifests: Iterable[str]) -> int:
    """Bytes of the files of data sets.

    As long as one is not laid out, a FileNotFoundError lets snakemake ask again when it is.
    """
    listed = [json.loads(Path(path).read_text(encoding="utf-8"))["files"] for path in manifests]
    return sum(file["bytes"] for files in listed for file in files.values())


def weight_bytes(model: Module, data: Module) -> int:
    """Bytes of the weights of a model, which is built without numbers."""
    return _weight_bytes(json.dumps([model.use, model.options, data.use, data.options]))


@cache
def _weight_bytes(modules: str) -> int:
    import torch  # which jobs need not import to read their rules

    model_use, model_options, data_use, data_options = json.loads(modules)
    # A broken plug-in fails again in the job, where the failure is a result.
    with suppress(Exception):
        dataset, model = (
            plugins.get(kind, use).load() for kind, use in (("dataset", data_use), ("model", model_use))
        )
        images = dataset(resolve(dataset, data_options))
        with torch.device("meta"):
            network = model(resolve(model, model_options), images.shape, images.classes)
        return sum(tensor.numel() * tensor.element_size() for tensor in network.parameters())
    return 0


_COPY_OF_CONF = "THINWIRE_SLURM_CONF"


def hand_on_conf(variables: MutableMapping[str, str] = os.environ) -> None:
    """Copy SLURM_CONF, or restore it where it was lost. It is set if the configuration is not in /etc/slurm.

    The jobs of Snakemake's plug-in for Slurm lose all variables whose names begin with SLURM_. So a copy
    under another name goes with them, and the job restores the variable, which the commands of Slurm need.
    """
    if "SLURM_CONF" in variables:
        variables[_COPY_OF_CONF] = variables["SLURM_CONF"]
    elif _COPY_OF_CONF in variables:
        variables["SLURM_CONF"] = variables[_COPY_OF_CONF]


def require_ready(defaults: Mapping[str, str]) -> None:
    """Require a Slurm, an account in the profile if it asks for one, and no job of an earlier snakemake here.

    A snakemake that was killed leaves jobs in the queue, which would run twice. A `UserError` says how to
    stop them, or what is missing. `defaults` are the default resources of the profile.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "there is no Slurm here (sbatch is not found): run this on a cluster's login node, or "
            "leave out --profile slurm"
        )
    if defaults.get("slurm_account") == "":
        raise UserError(
            "slurm/config.yaml names no slurm_account: write yours there, or delete the line if the "
            "cluster has no accounts"
        )
    # The comment of the pipeline's jobs names a rule.
    asked = ["squeue", "--me", "--noheader", "--format=%i %Z %k"]
    try:
        listing = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        raise UserError(f"squeue does not say whether an earlier snakemake has left jobs: {said}") from None
    if left := [line.split()[0] for line in listing.splitlines() if f" {Path.cwd()} rule_" in line]:
        raise UserError(
            "an earlier snakemake has left jobs here: let them end, or stop them with scancel "
            f"{' '.join(left)}, which loses nothing, and start again"
        )
