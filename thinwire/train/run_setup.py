"""What a run needs before its first step, and the checkpoints from which it goes on."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from thinwire import plugins
from thinwire.base import digests
from thinwire.base.learning import CLASSIFICATION
from thinwire.base.nvidia_smi import ASKING
from thinwire.base.options import as_dict, resolve
from thinwire.base.placement import Cluster, on_gpu
from thinwire.config.cell import Cell, sources
from thinwire.emulation.emulated_run import EmulatedRun
from thinwire.records import checkpoint
from thinwire.records.provenance import RESUMED, Span, about_this_process, no_time_because, provenance
from thinwire.records.result import Partition
from thinwire.train.cell_task import deterministic, device_of, require_precision, task_of
from thinwire.train.passes import Passes
from thinwire.train.preparation_record import PREPARED, preparation_of
from thinwire.train.trainer import Trainer
from thinwire.transport.device import backend_of, make_current, uses_device_group
from thinwire.transport.interface import Transport


def digest_of_weights(model: nn.Module) -> str:
    """The SHA-256 of all parameters and buffers of a model, with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class RunSetup:
    """Of one attempt at a cell."""

    def __init__(
        self,
        cell: Cell,
        results: Path,
        transport: Transport,
        doing: Callable[[str], None] = lambda what: None,
    ) -> None:
        self._cell, self._results, self._transport, self._doing = cell, results, transport, doing
        self.sources = sources(cell)
        self.trainer: Trainer | None = None  # until it is loaded
        # For the record. The fields are named as in `thinwire.records.record.Record`.
        self.record_fields: dict[str, Any] = {"method_options": {}, "model_options": {}}
        self.no_time_because: str | None = None
        self.interruptions = 0  # how often the run has resumed from a checkpoint
        self.span = Span()
        self.provenance: dict[str, Any] = {
            "started": self.span.started,
            "seed": cell.seed,
            "sources_sha256": self.sources,
        }

    def load(self) -> tuple[Trainer, Path | None]:
        """Load everything that may be missing or broken.

        The first process of a node verifies the data for all of them. So all must meet before they train.

        Returns:
            The trainer, and the folder that the method's preparation has filled; None if it prepares nothing.

        Raises:
            UserError: something is missing or broken.
        """
        cell = self._cell
        place = self._transport.ranks[0] % (cell.workers // cell.nodes)
        device = device_of(cell, place)
        make_current(device)
        require_precision(device, cell.recipe.precision)
        deterministic(device, cell.recipe.precision)
        self.provenance |= provenance(device, Passes(cell.recipe, device).settings())
        method = plugins.get("method", cell.method.use).load()
        config = resolve(method, cell.method.options)
        model = plugins.get("model", cell.model.use).load()
        fields = self.record_fields
        fields["method_options"] = as_dict(config)
        fields["model_options"] = as_dict(resolve(model, cell.model.options))
        task = task_of(cell, self._results, device, place == 0, self._doing)
        self.provenance["data_sha256"] = task.data.checksums
        fields["classes"] = task.data.classes
        evaluated = task.data.test_labels.numel()
        if task.data.task is CLASSIFICATION:
            fields["evaluated_images"] = evaluated
        else:
            fields |= {"task": task.data.task.name, "evaluated_characters": evaluated}
        self.trainer = trainer = Trainer(task, method, config, self._transport)
        # Before the method is set up, which may change them.
        self.provenance["initial_weights_sha256"] = digest_of_weights(trainer.workers[0].model)
        fields["parameters"] = sum(param.tensor.numel() for param in trainer.workers[0].run.params)
        fields["total_steps"] = trainer.total_steps
        fields["steps_per_epoch"] = trainer.steps_per_epoch
        if (partition := trainer.partition) is not None:
            sizes = [len(own) for own in partition.inputs]
            fields["partition"] = Partition(
                sha256=partition.sha256,
                divergence=partition.divergence(task.data),
                fewest_inputs=min(sizes),
                most_inputs=max(sizes),
            )
        preparation = preparation_of(cell, self._results) if trainer.skip() is None else None
        if preparation is None:
            return trainer, None
        prepared, made = preparation
        fields["preparation"] = made.cost
        self.provenance["prepared_sha256"] = digests.of_file(prepared / PREPARED)
        return trainer, prepared

    def note_ranks(self) -> None:
        """Record where each worker runs, and whether the times of the run are valid; after `load`."""
        assert self.trainer is not None
        device = self.trainer.task.device
        if self._transport.kind == "inprocess":
            if on_gpu(device):
                self._note([self._about(device)])
            return
        about = self._about(device)
        if uses_device_group(device, backend_of(device, self._cell.backend)):
            rows = self.trainer.workers[0].ledger.rows
            about["messages_through_host"] = any(verb == "send" for _, verb, _ in rows)
        ranks = self._note(self._transport.share([about]))
        if self._transport.kind == "measured":
            cluster = Cluster(self._cell.workers, self._cell.nodes)
            self.no_time_because = no_time_because(ranks, cluster, self.interruptions)

    def _about(self, device: torch.device) -> dict[str, object]:
        if not on_gpu(device):
            return about_this_process(device)
        self._doing(ASKING)
        about = about_this_process(device)
        self._doing("computes")
        return about

    def note_emulation(self, emulated: EmulatedRun) -> None:
        """Record what was measured of the emulated cluster, and whether the times of the run are valid."""
        self.provenance["emulation"] = emulated.provenance
        self.no_time_because = RESUMED if self.interruptions else emulated.no_time_because

    def note_ranks_again(self) -> None:
        """Record what only training shows: other processes on the GPUs, and messages; after training."""
        assert self.trainer is not None
        if on_gpu(self.trainer.task.device):
            self.note_ranks()

    def note_resume(self, interruptions: int) -> None:
        """Record how often the run was interrupted, now included; then its times are not valid."""
        self.interruptions = interruptions
        if self._transport.kind in ("measured", "emulated"):
            self.no_time_because = RESUMED

    def _note(self, ranks: list[dict[str, object]]) -> list[dict[str, object]]:
        """Record what the ranks say; of the other processes, the most that each of them has seen."""
        for rank, before in zip(ranks, self.provenance.get("ranks", [])):
            if "other_processes" in rank:
                rank["other_processes"] = max(rank["other_processes"], before["other_processes"])
        self.provenance["ranks"] = ranks
        return ranks

    def identity(self) -> dict[str, str]:
        """What the checkpoints of this process depend on: options, data and code; after `load`."""
        assert self.trainer is not None
        identity = {"fingerprint": self._cell.fingerprint, "data": self.trainer.task.data.digest}
        identity |= {**self.sources, "rank": str(self._transport.ranks[0])}
        if "prepared_sha256" in self.provenance:
            identity["prepared"] = self.provenance["prepared_sha256"]
        return identity


class RunCheckpoints:
    """The checkpoints of the workers in this process. All processes save theirs after the same steps."""

    def __init__(
        self,
        folder: Path,
        every_seconds: float,
        identity: dict[str, str],
        log: Callable[[str], None],
        doing: Callable[[str], None] = lambda what: None,
    ) -> None:
        """Describe the checkpoints in a folder, of which one is due after so many seconds.

        Args:
            folder: that holds them.
            every_seconds: of training.
            identity: of the options, the code and the data that they depend on.
            log: is called with a line about each checkpoint that cannot be used.
            doing: is called with a description of what takes long.
        """
        self._folder, self._every = folder, every_seconds
        self._identity, self._log, self._doing = identity, log, doing
        self._reads = partial(doing, "reads its checkpoints")
        self._saves = partial(doing, "saves a checkpoint")
        self._saved_at = 0.0
        self.interruptions = 0  # how often the run has resumed from a checkpoint

    def resume(self, trainer: Trainer) -> bool:
        """Resume from the newest checkpoint that is sound on all ranks; False if none has this identity."""
        transport = trainer.transport
        self._reads()
        own = checkpoint.sound(self._folder, self._log, self._reads)
        of_all_ranks = transport.share([own for _ in transport.ranks])
        common = set.intersection(*map(set, of_all_ranks))
        if not common:
            return False
        self._reads()
        saved = checkpoint.load(self._folder, max(common), self._reads)
        same = isinstance(saved, dict) and saved.get("identity") == self._identity
        if not all(transport.share([same for _ in transport.ranks])):
            self._log("the checkpoint was made with other options, data or code: training from the beginning")
            return False
        trainer.load(saved["trainer"])
        self.interruptions = saved["interruptions"] + 1
        return True

    def is_due(self, trainer: Trainer) -> bool:
        """Is a stop asked for, or has the run trained long enough since the last one?

        Only an exchange of status tells. After the last step it is too late for both.
        """
        if trainer.step == trainer.total_steps or not trainer.status_is_new:
            return False
        return bool(trainer.status.stop) or trainer.status.elapsed_seconds - self._saved_at >= self._every

    def save(self, trainer: Trainer) -> None:
        """Save a checkpoint, from which the next attempt resumes."""
        about = {"identity": self._identity, "interruptions": self.interruptions}
        state = {**about, "trainer": trainer.state()}
        self._saves()
        checkpoint.save(self._folder, trainer.step, state, self._saves, _sharing(trainer.transport))
        trainer.meet()
        self._doing("computes")
        self._saved_at = trainer.status.elapsed_seconds


def _sharing(transport: Transport) -> checkpoint.Sharing | None:
    """How ranks share a checkpoint; None in one process, and on emulated links, whose bytes are counted."""
    if transport.kind != "measured":
        return None
    return checkpoint.Sharing(transport.ranks[0], lambda own: transport.share([own]))
