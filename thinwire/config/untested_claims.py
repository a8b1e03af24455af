"""The claims that no suite can test, each with the reason: `config/claims/untested.yaml`."""

from pathlib import Path

from pydantic import Field

from thinwire.config import schema_file
from thinwire.config.claim_schema import ClaimId
from thinwire.config.one_line import OneLine
from thinwire.optim.recipe import Strict
from thinwire.plugins import ROOT

PATH = ROOT / "config" / "claims" / "untested.yaml"


class Untested(Strict):
    """A claim without a test."""

    id: ClaimId = Field(description="number of the publication and letter of the claim")
    publication: OneLine = Field(description="short name of the publication")
    claim: OneLine = Field(description="what the publication claims, in our words")
    reason: OneLine = Field(description="what a test would need")


class UntestedClaims(Strict):
    """The file."""

    untested: list[Untested] = Field(description="in the order of their ids")


def read(path: Path = PATH) -> list[Untested]:
    """Read and validate the file.

    Raises:
        UserError: the file has errors; one message lists all of them.
    """
    return schema_file.read(path, UntestedClaims, "a list of untested claims", "docs/claims.md").untested
