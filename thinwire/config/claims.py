"""Claims of publications: as suites test them, and those that no suite tests.

docs/claims.md explains how a claim is tested. `suite_problems` checks what a claim and its suite must have in
common.
"""

import re
import string
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from thinwire.base.errors import nearest
from thinwire.base.learning import TASKS
from thinwire.base.options import Strict
from thinwire.config import yaml_file
from thinwire.config.yaml_file import OneLine
from thinwire.plugins import ROOT

_Bytes = Literal["push", "pull", "payload", "wire", "between_nodes"]
SCORES = {task.metric: task for task in TASKS.values()}
Metric = Literal[
    "accuracy",
    "bits_per_character",
    _Bytes,
    "payload_with_preparation",
    "seconds_of_a_step",
    "seconds_to_target",
]
Direction = Literal["less", "more", "same", "not_less"]
Statistic = Literal["paired_t", "tost", "non_inferiority", "exact_bytes", "ratio"]
SECONDS = ("seconds_of_a_step", "seconds_to_target")
# What a template may name, in braces.
FIELDS = (
    *("method", "against", "estimate", "low", "high", "unit", "margin", "n"),
    *("dataset", "model", "workers", "nodes", "kind", "cluster"),
)
_OF_SCORES = {"more": "paired_t", "same": "tost", "not_less": "non_inferiority"}
# Words that only some claims support, with the metrics and directions that do.
_WORDS = (
    (r"\bbetter\b", SCORES, ("more",)),
    (r"\bfaster\b", SECONDS, ("less",)),
    (r"\b(no|without) (any )?(loss|losing)\b", SCORES, ("same", "not_less")),
)


def _claim_id(text: str) -> str:
    if not re.fullmatch(r"\d{3}-[a-z](\.\d+)?", text):
        raise ValueError("an id is three digits and a letter, such as 002-a, or 002-a.1 for a part of it")
    return text


def _template(text: str) -> str:
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise ValueError(f"it is no template ({error}): write each field in braces, as in {{n}}") from None
    for name in names:
        if name not in FIELDS:
            raise ValueError(f"there is no field {name!r}: the nearest is {nearest(name, FIELDS)}")
    return text


def _several(value: object) -> object:
    """`ssgd` means `[ssgd]`."""
    return [value] if isinstance(value, str) else value


Template = Annotated[OneLine, AfterValidator(_template)]
ClaimId = Annotated[str, AfterValidator(_claim_id)]


class Margin(Strict):
    """How far an estimate may be, or must be, from no difference."""

    value: float = Field(ge=0, description="in the unit")
    unit: Literal["points", "bits", "percent"] = Field(
        description="points: percentage points of accuracy; bits: of a character; percent: of the value "
        "compared with"
    )


class AtEqual(Strict):
    """Bytes of which the method and what it is compared with must have almost as many."""

    metric: _Bytes = Field(description="of bytes")
    within_percent: float = Field(ge=0, description="of the value compared with")


class Claim(Strict):
    """What a suite tests of a publication."""

    id: ClaimId = Field(description="number of the publication and letter of the claim; .1, .2 for its parts")
    publication: OneLine = Field(description="short name of the publication")
    claim: OneLine = Field(description="the sentence that is tested, in our words")
    method: str = Field(description="label of the suite")
    against: Annotated[
        list[str],
        Field(min_length=1),
        BeforeValidator(_several, json_schema_input_type=str | list[str]),
    ] = Field(description="label of the suite, or several: then the best of them in each cell")
    variants: list[str] = Field(
        default=[],
        description="labels of the suite: the method with other choices of what was reconstructed; only a "
        "verdict that all of them share is one on the method",
    )
    models: list[str] = Field(default=[], description="labels of the suite; default: all")
    metric: Metric = Field(description="what is compared")
    direction: Direction = Field(
        description="where the method lies, seen from what it is compared with; more: a better score, which "
        "has fewer bits per character"
    )
    margin: Margin | None = Field(default=None, description="default: none")
    at_equal: AtEqual | None = Field(
        default=None, description="bytes that must be equal, or nothing is said; default: none"
    )
    statistic: Statistic = Field(description="how the comparison is decided; it follows from the two above")
    scope: Literal["mechanism", "number"] = Field(
        description="mechanism: only the direction; number: the published figure, which is the margin"
    )
    expected: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="where the estimate should lie, in its unit"
    )
    post_hoc: bool = Field(
        default=False, description="was the claim set here when the runs that decide it were known?"
    )
    may_say: Template = Field(description="the sentence if the claim is held, with fields such as {estimate}")
    may_not_say: list[Template] = Field(
        default=[], description="sentences that no verdict on this claim supports, with the same fields"
    )

    @property
    def unit(self) -> Literal["points", "bits", "percent"]:
        """The unit of the estimate and of its interval."""
        if self.metric not in SCORES:
            return "percent"
        return self.margin.unit if self.margin else self._units()[0]

    @model_validator(mode="after")
    def _belongs_together(self) -> "Claim":
        fits = self._fitting_statistic()
        if self.statistic != fits:
            raise ValueError(f"statistic: {self.metric} and {self.direction} go with {fits}")
        if self.margin is None and (self.direction in ("same", "not_less") or self.scope == "number"):
            why = "scope number" if self.scope == "number" else f"direction {self.direction}"
            raise ValueError(f"margin: {why} needs one")
        if self.margin is not None and self.direction == "more":
            raise ValueError("margin: direction more takes none")
        if self.margin is not None and self.margin.unit not in self._units():
            but = " unless the direction is not_less" if self.metric in SCORES else ""
            raise ValueError(f"margin.unit: that of {self.metric} is {self._units()[0]}{but}")
        if self.at_equal is not None and self.metric not in SCORES:
            raise ValueError(f"at_equal: it goes with {' or '.join(SCORES)}")
        if self.expected is not None and self.expected[0] > self.expected[1]:
            raise ValueError(f"expected: {self.expected} does not rise")
        for pattern, metrics, directions in _WORDS:
            found = re.search(pattern, self.may_say, re.IGNORECASE)
            if found and not (self.metric in metrics and self.direction in directions):
                verdict = f"a verdict on {self.metric} and {self.direction}"
                raise ValueError(f"may_say: {found[0]!r} is more than {verdict} supports")
        return self

    def _units(self) -> tuple[Literal["points", "bits", "percent"], ...]:
        """The units that a margin may have. A published loss may also be a share of the score."""
        if self.metric not in SCORES:
            return ("percent",)
        own: Literal["points", "bits"] = "points" if self.metric == "accuracy" else "bits"
        return (own, "percent") if self.direction == "not_less" else (own,)

    def _fitting_statistic(self) -> str:
        if self.metric in SCORES:
            if self.direction not in _OF_SCORES:
                raise ValueError(f"direction: {self.metric} takes {', '.join(_OF_SCORES)}")
            return _OF_SCORES[self.direction]
        if self.direction != "less":
            raise ValueError(f"direction: {self.metric} takes less")
        return "ratio" if self.metric in SECONDS else "exact_bytes"


UNTESTED = ROOT / "config" / "claims" / "untested.yaml"


class Printed(Strict):
    """Lines of the newest record of a benchmark."""

    benchmark: OneLine = Field(description="name of the file in benchmarks/, without .py")
    lines: OneLine = Field(description="how these lines begin")

    def newest_record(self) -> Path | None:
        """The file of the newest record; None where the project was copied without its benchmarks."""
        # The folders are named by date.
        records = sorted((ROOT / "benchmarks" / "records").glob(f"*/{self.benchmark}.txt"))
        return records[-1] if records else None


class Published(Strict):
    """A number that the publication gives."""

    value: float = Field(gt=0, description="in the unit")
    unit: Literal["percent", "times"] = Field(description="of the value compared with")


class Untested(Strict):
    """A claim without a test."""

    id: ClaimId = Field(description="number of the publication and letter of the claim")
    publication: OneLine = Field(description="short name of the publication")
    claim: OneLine = Field(description="what the publication claims, in our words")
    published: Published | None = Field(default=None, description="the number that it names; default: none")
    reason: OneLine = Field(description="what a test would need")
    printed: Printed | None = Field(
        default=None, description="what a benchmark has printed about it; default: no benchmark measures it"
    )


class UntestedClaims(Strict):
    """The file."""

    untested: list[Untested] = Field(description="in the order of their ids")


def read_untested(path: Path = UNTESTED) -> list[Untested]:
    """Read and validate the file; a UserError lists all that is wrong in it."""
    return yaml_file.read(path, UntestedClaims, "a list of untested claims", "docs/claims.md").untested
