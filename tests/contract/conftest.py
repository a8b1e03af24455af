"""The methods that are held to the contract: all in methods/, or the one file that was given."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import small
from thinwire import plugins
from thinwire.cluster import Cluster


class Subject(NamedTuple):
    """A method under test."""

    name: str
    path: Path
    method: Any

    @property
    def files(self) -> list[Path]:
        """All that its module is made of."""
        return plugins.Plugin("method", self.name, self.path).files

    def clusters(self) -> list[Cluster]:
        """One node, several nodes, and a number of workers that is no power of two, where it can be."""
        wanted = [Cluster(4), Cluster(4, 2), Cluster(3), Cluster(6, 3), Cluster(1)]
        if self.method.needs.workers > 6 or self.method.needs.nodes > 3:
            wanted = [Cluster(8), Cluster(8, 4), Cluster(24, 8)]
        able = [c for c in wanted if self.skip(c) is None]
        assert able, f"{self.name} skips every cluster that was tried: {self.skip(wanted[1])}"
        return able

    def skip(self, cluster: Cluster) -> str | None:
        return small.skip(self.task(cluster), self.method, **self.method.short)

    def task(self, cluster: Cluster, **changes: Any) -> Any:
        """A small task, with a model that the method does not skip."""
        model = small.model_for(self.method, **self.method.short)
        return small.task(cluster.workers, cluster.nodes, build_model=model, **changes)

    def trainer(self, cluster: Cluster | None = None, options: Any = None, **changes: Any) -> Any:
        """A small run of this method, set up; without options with those that it names for short runs."""
        task = self.task(cluster or self.clusters()[0], **changes)
        return small.trainer(task, self.method, **(self.method.short if options is None else options))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "subject" not in metafunc.fixturenames:
        return
    file = metafunc.config.getoption("--method-file")
    if file:
        path = Path(file)
        name = plugins.name_of(path)
        subjects = [Subject(name, path, plugins.load_file("method", path, f"thinwire_methods.{name}"))]
    else:
        found = plugins.find("method").values()
        subjects = [Subject(plugin.name, plugin.path, plugin.load()) for plugin in found]
    metafunc.parametrize("subject", subjects, ids=[subject.name for subject in subjects])
