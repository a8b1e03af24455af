"""What a method's preparation depends on, and which runs share one."""

from dataclasses import asdict, dataclass

from thinwire import digests
from thinwire.config.types import Module
from thinwire.optim.recipe import Recipe
from thinwire.rules_version import RULES_VERSION


@dataclass(frozen=True)
class PreparationKey:
    """Everything that a preparation may depend on, except code and data.

    Keys with the same path share a preparation. Workers, nodes and transport are not part of it. So runs on
    all numbers of workers share one.
    """

    suite: str
    data: Module
    model: Module
    method: Module
    # The first method of the suite that shares the preparation, and its recipe. Methods that differ only in
    # their label share one.
    preparer: str
    recipe: Recipe
    repetition: int
    seed: int
    device: str
    evaluate_on: str

    @property
    def path(self) -> str:
        """The path of the preparation below its suite."""
        return "/".join((self.data.label, self.model.label, self.preparer, f"seed{self.repetition}"))

    def identity(self) -> dict[str, str]:
        """The key under readable names, for the record."""
        return {
            "data set": digests.of_identity(asdict(self.data)),
            "model": digests.of_identity(asdict(self.model)),
            "method": digests.of_identity([self.method.use, self.method.options]),
            "seed": str(self.seed),
            "recipe": digests.of_identity(self.recipe.model_dump(mode="json")),
            "suite": self.suite,
            "device": self.device,
            "choice of what is evaluated on": self.evaluate_on,
            "version of the rules": str(RULES_VERSION),
        }

    @property
    def fingerprint(self) -> str:
        """The digest of the identity."""
        return digests.of_identity(self.identity())
