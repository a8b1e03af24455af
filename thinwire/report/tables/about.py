"""What the tables of a suite say about the suite."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from thinwire.config.baselines import baselines
from thinwire.config.prepare_from import prepared_from
from thinwire.config.suite_schema import Suite
from thinwire.report.own_recipes import note, own_recipes


class About(NamedTuple):
    """What the tables say beside their numbers."""

    title: str
    evaluated_on: str
    baselines: tuple[str, ...]  # labels; accuracies and bytes are compared with the first
    recipes: Mapping[str, str] = MappingProxyType({})  # by label: where it is not that of the suite
    recipes_note: str = ""
    cluster: str | None = None  # of emulated runs
    subset: str | None = None  # says which part of the suite is shown, if it is not the whole
    prepared_from: Mapping[str, str] = MappingProxyType({})  # by label: if another cell's preparation is used

    @property
    def baseline(self) -> str:
        """The label of the suite's baseline."""
        return self.baselines[0]

    @classmethod
    def of(cls, suite: Suite, subset: str | None = None) -> "About":
        """What the tables of this suite say."""
        recipes = own_recipes(suite), note(suite)
        labels = tuple(baselines(suite))
        from_ = prepared_from(suite)
        return cls(suite.title, suite.evaluate_on, labels, *recipes, suite.cluster, subset, from_)
