"""The claims that no suite can test, each with the reason: `config/claims/untested.yaml`."""

from pathlib import Path

from pydantic import Field

from thinwire.config import yaml_file
from thinwire.config.claim_schema import ClaimId
from thinwire.config.types import OneLine
from thinwire.optim.recipe import Strict
from thinwire.plugins import ROOT

PATH = ROOT / "config" / "claims" / "untested.yaml"


class Printed(Strict):
    """Lines of the newest record of a benchmark."""

    benchmark: OneLine = Field(description="name of the file in benchmarks/, without .py")
    lines: OneLine = Field(description="how these lines begin")

    def newest_record(self) -> Path | None:
        """The file of the newest record; None where the project was copied without its benchmarks."""
        # The folders are named by date.
        records = sorted((ROOT / "benchmarks" / "records").glob(f"*/{self.benchmark}.txt"))
        return records[-1] if records else None


class Untested(Strict):
    """A claim without a test."""

    id: ClaimId = Field(description="number of the publication and letter of the claim")
    publication: OneLine = Field(description="short name of the publication")
    claim: OneLine = Field(description="what the publication claims, in our words")
    reason: OneLine = Field(description="what a test would need")
    printed: Printed | None = Field(
        default=None, description="what a benchmark has printed about it; default: no benchmark measures it"
    )


class UntestedClaims(Strict):
    """The file."""

    untested: list[Untested] = Field(description="in the order of their ids")


def read(path: Path = PATH) -> list[Untested]:
    """Read and validate the file.

    Raises:
        UserError: the file has errors; one message lists all of them.
    """
    return yaml_file.read(path, UntestedClaims, "a list of untested claims", "docs/claims.md").untested
