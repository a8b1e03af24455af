"""What a run needs before its workers first communicate, and what its record says about that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from thinwire import digests, plugins
from thinwire.config.cell import Cell
from thinwire.config.cell_sources import sources
from thinwire.emulation.emulated_run import EmulatedRun
from thinwire.options import as_dict, resolve
from thinwire.provenance import Span, provenance
from thinwire.train.cell_task import task_of
from thinwire.train.deterministic import deterministic
from thinwire.train.device_of_worker import device_of
from thinwire.train.initial_weights import digest_of_weights
from thinwire.train.preparation_of_cell import preparation_of
from thinwire.train.preparation_record import PREPARED
from thinwire.train.time_validity import about_this_process, no_time_because
from thinwire.train.trainer import Trainer
from thinwire.transport.backend import backend_of, uses_device_group
from thinwire.transport.current_device import make_current
from thinwire.transport.transport import Transport
from thinwire.worker_placement import Cluster


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
        # For the record. The fields are named as in `thinwire.record.Record`.
        self.record_fields: dict[str, Any] = {"method_options": {}, "model_options": {}}
        self.no_time_because: str | None = None
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
        device = device_of(cell, self._transport.ranks[0] % (cell.workers // cell.nodes))
        make_current(device)
        deterministic(device)
        self.provenance |= provenance(device)
        method = plugins.get("method", cell.method.use).load()
        config = resolve(method, cell.method.options)
        self.record_fields["method_options"] = as_dict(config)
        model = plugins.get("model", cell.model.use).load()
        self.record_fields["model_options"] = as_dict(resolve(model, cell.model.options))
        task = task_of(cell, self._results, device, self._is_first_on_node(), self._doing)
        self.provenance["data_sha256"] = task.data.checksums
        self.record_fields["classes"] = task.data.classes
        self.record_fields["evaluated_images"] = len(task.data.test_images)
        self.trainer = trainer = Trainer(task, method, config, self._transport)
        # Before the method is set up, which may change them.
        self.provenance["initial_weights_sha256"] = digest_of_weights(trainer.workers[0].model)
        params = trainer.workers[0].run.params
        self.record_fields["parameters"] = sum(param.tensor.numel() for param in params)
        self.record_fields["total_steps"] = trainer.total_steps
        self.record_fields["steps_per_epoch"] = trainer.steps_per_epoch
        prepared = self._prepared() if trainer.skip() is None else None
        if prepared is not None:
            self.provenance["prepared_sha256"] = digests.of_file(prepared / PREPARED)
        return trainer, prepared

    def note_ranks(self) -> None:
        """Record where each worker runs, and whether the times of the run are valid; after `load`."""
        assert self.trainer is not None
        device = self.trainer.task.device
        if self._transport.kind == "inprocess":
            if device.type == "cuda":
                self._note([about_this_process(device)])
            return
        about = about_this_process(device)
        if uses_device_group(device, backend_of(device, self._cell.backend)):
            rows = self.trainer.workers[0].ledger.rows
            about["messages_through_host"] = any(verb == "send" for _, verb, _ in rows)
        ranks = self._note(self._transport.share([about]))
        if self._transport.kind == "measured":
            cluster = Cluster(self._cell.workers, self._cell.nodes)
            self.no_time_because = no_time_because(ranks, cluster)

    def note_emulation(self, emulated: EmulatedRun) -> None:
        """Record what was measured of the emulated cluster, and whether the times of the run are valid."""
        self.provenance["emulation"] = emulated.provenance
        self.no_time_because = emulated.no_time_because

    def note_ranks_again(self) -> None:
        """Record what only training shows: other processes on the GPUs, and messages; after training."""
        assert self.trainer is not None
        if self.trainer.task.device.type == "cuda":
            self.note_ranks()

    def _is_first_on_node(self) -> bool:
        if self._transport.kind in ("inprocess", "mirrored"):
            return True
        return self._transport.ranks[0] % (self._cell.workers // self._cell.nodes) == 0

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

    def _prepared(self) -> Path | None:
        found = preparation_of(self._cell, self._results)
        if found is None:
            return None
        folder, made = found
        self.record_fields["preparation"] = made.cost
        return folder
