"""A cell: one run, with everything that decides its result."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from thinwire import seeds
from thinwire.optim.recipe import Recipe
from thinwire.rules import RULES_VERSION


@dataclass(frozen=True)
class Module:
    """A plug-in with options, under the label that stands in paths and tables."""

    label: str
    use: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    suite: str
    dataset: str
    model: Module
    method: Module
    workers: int
    nodes: int
    size_label: str
    repetition: int
    suite_seed: int
    recipe: Recipe
    evaluate_on: str
    device: str

    @property
    def path(self) -> str:
        """Where the run stands under its suite, and its name on the command line."""
        return "/".join(
            (
                self.dataset,
                self.model.label,
                self.method.label,
                self.size_label,
                f"seed{self.repetition}",
            )
        )

    @property
    def seed(self) -> int:
        """The same for all methods and worker counts: they share initial weights and data order."""
        return seeds.derive(self.suite_seed, self.dataset, self.model.label, self.repetition)

    def identity(self) -> dict[str, Any]:
        """All that decides the result, but for the code and the data."""
        return {
            **asdict(self),
            "recipe": self.recipe.model_dump(mode="json"),
            "rules": RULES_VERSION,
        }

    @property
    def fingerprint(self) -> str:
        """Changes when the identity does."""
        return _digest(self.identity())

    @property
    def preparation(self) -> str:
        """Where what the method prepares stands under its suite: shared by all numbers of workers."""
        return "/".join((self.dataset, self.model.label, self.method.label, f"seed{self.repetition}"))

    @property
    def preparation_fingerprint(self) -> str:
        """Changes when something does that a preparation may depend on."""
        cluster = ("workers", "nodes", "size_label")
        return _digest({key: value for key, value in self.identity().items() if key not in cluster})


def _digest(identity: dict[str, Any]) -> str:
    text = json.dumps(identity, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
