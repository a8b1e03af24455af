"""What `paper/values.yaml` declares: the files, figures and named values of the paper."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from thinwire.config import yaml_file
from thinwire.optim.recipe import Strict
from thinwire.plugins import ROOT

SOURCES = ROOT / "paper"
VALUES = "values.yaml"


class File(Strict):
    """A file that values or a figure come from."""

    path: str = Field(description="`results/...` is in the folder of results, others are in the project")
    made_by: str = Field(description="the command that makes it")
    suite: str | None = Field(default=None, description="of whose runs it has rows; None: of no runs")
    required: bool = Field(default=False, description="is there no paper without it?")

    def on_disk(self, results: Path) -> Path:
        """Where it is, with this folder of results."""
        first, _, rest = self.path.partition("/")
        return results / rest if first == "results" else ROOT / self.path


class Declared(Strict):
    """A value, or one for each content of the columns in braces in its name."""

    file: str = Field(description="key of `files`")
    where: dict[str, str | int | float | bool] = Field(default={}, description="contents of columns")
    column: str = Field(description="a column, or an expression of columns as pandas evaluates it")
    take: Literal["only", "count", "nunique", "min", "max", "sum", "mean", "median", "p95"] = Field(
        default="only", description="of the rows; only: they must agree"
    )
    digits: int = Field(default=0, ge=0, le=6, description="after the point")


class Published(Strict):
    """A number that a publication gives."""

    text: str
    of: str = Field(description="key in references.yaml")
    place: str = Field(description="where in the publication")


class Bars(Strict):
    """A figure with a bar for each of some values."""

    file: str = Field(description="key of `files`: the file that the values come from")
    axis: str = Field(description="what the length of a bar means, with its unit")
    bars: dict[str, str] = Field(min_length=1, description="the name of a value for each label, from the top")


class Declarations(Strict):
    """The content of `paper/values.yaml`."""

    files: dict[str, File]
    figures: dict[str, File]
    bars: dict[str, Bars]
    published: dict[str, Published]
    values: dict[str, Declared]


def read(path: Path = SOURCES / VALUES) -> Declarations:
    """Read and validate the declarations.

    Raises:
        UserError: the file has errors; one message lists all of them.
    """
    return yaml_file.read(path, Declarations, "the paper's list of values", "docs/paper.md")
