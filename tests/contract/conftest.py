"""The methods to which the contract applies: all in methods/, or the one file that was given."""

import inspect
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist

from tests import small
from thinwire import plugins
from thinwire.base.placement import Cluster


class Subject(NamedTuple):
    """A method under test."""

    name: str
    path: Path
    method: Any

    @classmethod
    def of(cls, path: Path) -> "Subject":
        """The method in this file."""
        name = plugins.name_of(path)
        own = plugins.find("method").get(name)
        if own is not None and own.path.samefile(path):
            return cls(name, path, own.load())
        # Another file may have the name of a method in methods/, which other checks load.
        return cls(name, path, plugins.load_file("method", path, f"thinwire_checked.{name}"))

    @property
    def files(self) -> list[Path]:
        """All that its module is made of."""
        return plugins.Plugin("method", self.name, self.path).files

    def clusters(self) -> list[Cluster]:
        """One node, several nodes, and a number of workers that is no power of two, if possible.

        In one of several processes: the clusters with that number of workers. Several nodes come first there,
        because they use more of the transport.
        """
        return _clusters(self)

    def skip(self, cluster: Cluster) -> str | None:
        return small.skip(self.task(cluster), self.method, **self.method.short)

    def task(self, cluster: Cluster, **changes: Any) -> Any:
        """A small task, with a model and an optimizer that the method does not skip."""
        changes = small.recipe_for(self.method) | changes
        return small.task(cluster.workers, cluster.nodes, build_model=_model(self), **changes)

    def trainer(self, cluster: Cluster | None = None, options: Any = None, **changes: Any) -> Any:
        """A small run of this method, set up. The default options are the method's for short runs."""
        task = self.task(cluster or self.clusters()[0], **changes)
        return small.trainer(task, self.method, **(self.method.short if options is None else options))

    def trained(self, cluster: Cluster | None = None, dtype: torch.dtype = torch.float64) -> Any:
        """Such a run at its end, which checks share: they only look at it."""
        return _trained(self, cluster or self.clusters()[0], dtype)

    def weights_of_ssgd(self, cluster: Cluster) -> list[list[torch.Tensor]]:
        """The weights of synchronous SSGD in the same task, before the first step and after each."""
        task = self.task(cluster)
        key = (cluster, task.build_model, task.recipe.model_dump_json())
        if key not in _WEIGHTS_OF_SSGD:
            _WEIGHTS_OF_SSGD[key] = found = []
            run = small.trainer(task, "ssgd")
            for step in range(run.total_steps + 1):
                run.train(until=step)
                found.append([weight.clone() for weight in run.shipped()[0]])
        return _WEIGHTS_OF_SSGD[key]


_WEIGHTS_OF_SSGD: dict[Any, list[list[torch.Tensor]]] = {}


@cache
def _trained(subject: Subject, cluster: Cluster, dtype: torch.dtype) -> Any:
    run = subject.trainer(cluster, dtype=dtype)
    run.train()
    return run


@cache
def _clusters(subject: Subject) -> list[Cluster]:
    needs = subject.method.needs
    wanted = [Cluster(4), Cluster(4, 2), Cluster(3), Cluster(6, 3), Cluster(1)]
    if needs.workers > 6 or needs.nodes > 3:
        wanted = [Cluster(8), Cluster(8, 4), Cluster(24, 8)]
    if dist.is_initialized():
        wanted = [c for c in reversed(wanted) if c.workers == dist.get_world_size()]
    able = [c for c in wanted if subject.skip(c) is None]
    assert able, f"{subject.name} skips every cluster that was tried: {subject.skip(wanted[1])}"
    return able


@cache
def _model(subject: Subject) -> Any:
    return small.model_for(subject.method, **subject.method.short)


def perform(
    check: Callable[..., None],
    subject: Subject,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    **parameters: Any,
) -> list[str]:
    """Perform a check of the contract, and give what it notes.

    Args:
        check: a test of `test_contract`, `test_channels` or `test_gpus`.
        subject: the method.
        monkeypatch: what the check patches is restored afterwards.
        tmp_path: an empty folder.
        parameters: what the check has beside these, such as the step at which an interrupted run stops.
    """
    notes: list[str] = []
    with monkeypatch.context() as patch:
        there = {"subject": subject, "monkeypatch": patch, "note": notes.append, **parameters}
        there["tmp_path"] = tmp_path / "checkpoints"
        check(**{name: there[name] for name in inspect.signature(check).parameters})
    return notes


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Note a sentence, which `thinwire check` shows at its end."""
    return partial(record_property, "note")


# What a check shows with a few methods, `make test` does not repeat with the others: all have trajectories
# that were written down.
ON_ACCELERATOR = ("ssgd", "ps_sgd", "daso", "dgc", "hylo", "mp2")
QUICK_METHODS = {
    "test_hosts_wait_for_their_gpus_only_where_sizes_depend_on_values": ("ssgd", "dgc", "hylo"),
    "test_trains_on_an_accelerator_as_on_a_cpu": ON_ACCELERATOR,
    "test_learns": ("ssgd", "dgc", "mp2"),
    # Those with several channels.
    "test_calls_of_all_channels_have_one_order": ("daso", "hsgd", "quantised_all_reduce", "sparse_loco"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "subject" not in metafunc.fixturenames:
        return
    file = metafunc.config.getoption("--method-file")
    if file:
        subjects = [Subject.of(Path(file))]
    else:
        found = plugins.find("method").values()
        subjects = [Subject(plugin.name, plugin.path, plugin.load()) for plugin in found]
    quick = QUICK_METHODS.get(metafunc.function.__name__, getattr(metafunc.module, "QUICK_METHODS", None))
    parameters = [
        pytest.param(
            subject, id=subject.name, marks=[] if quick is None or subject.name in quick else pytest.mark.slow
        )
        for subject in subjects
    ]
    metafunc.parametrize("subject", parameters)
