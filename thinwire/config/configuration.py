"""What is run: the keys of `config/config.yaml` and `--config`, and the subset of the grid that they choose.

A cell of a subset has the same path and fingerprint as in the whole grid, so its record is the same. Also the
JSON schemas of this file, suites and tunings, with which editors complete and check them.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from thinwire.base.errors import UserError, nearest, quoted
from thinwire.base.options import Strict
from thinwire.config.cell import Cell
from thinwire.config.suite_schema import Suite
from thinwire.config.tuning_space import Tuning


def _as_text(value: object) -> object:
    """A name may be a number, such as that of workers."""
    if type(value) not in (str, int, float):
        raise ValueError("write names with commas between them")
    return str(value)


Names = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | float)]


class Configuration(Strict):
    """What `snakemake` runs. docs/running.md explains the keys."""

    suites: Names = Field(default="demo", description="files in config/, without .yaml, with commas between")
    tune: Names | None = Field(default=None, description="instead of suites: those whose methods are tuned")
    data: str | None = Field(
        default=None, description="has a folder for each data set whose files cannot be downloaded"
    )
    datasets: Names | None = Field(default=None, description="of all cells only these, by label")
    models: Names | None = Field(default=None, description="of all cells only these, by label")
    methods: Names | None = Field(default=None, description="of all cells only these, by label")
    workers: Names | None = Field(default=None, description="of all cells only these, such as w8n2")
    repetitions: int | None = Field(default=None, ge=1, le=10**9, description="only the first so many")

    @model_validator(mode="after")
    def _suites_or_tune(self) -> "Configuration":
        if "suites" in self.model_fields_set and self.tune is not None:
            raise ValueError("it has suites and tune: give one of them")
        return self

    @property
    def given(self) -> dict[str, str | int]:
        """The values that are not left out, by key."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


KINDS: dict[str, type[Strict]] = {"suite": Suite, "tuning": Tuning, "config": Configuration}


def json_schema(kind: str) -> str:
    """The keys, types and limits of a kind of files. What reads such a file checks more than these."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **KINDS[kind].model_json_schema()}
    return json.dumps(schema, indent=1) + "\n"


# What a cell is called under each key.
_NAMES_OF: dict[str, Callable[[Cell], tuple[str, ...]]] = {
    "datasets": lambda cell: (cell.dataset,),
    "models": lambda cell: (cell.model.label,),
    "methods": lambda cell: (cell.method.label,),
    "workers": lambda cell: (str(cell.workers), cell.size_label),
}
_REPETITIONS = "repetitions"
KEYS = (*_NAMES_OF, _REPETITIONS)


@dataclass(frozen=True)
class Subset:
    """The cells that have one of the names under each key. A key that is not given leaves nothing out."""

    names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by key
    repetitions: int | None = None  # so many, beginning with seed0; None: all

    @classmethod
    def of(cls, given: Mapping[str, object]) -> "Subset":
        """Read a subset from values by key: names with commas between them. Other keys are ignored.

        Raises:
            UserError: a value is empty, or `repetitions` is not a positive number.
        """
        names = {key: _split(key, given[key]) for key in _NAMES_OF if key in given}
        if _REPETITIONS not in given:
            return cls(names)
        number = str(given[_REPETITIONS])
        if not re.fullmatch("[1-9][0-9]{0,8}", number):
            raise UserError(f"{_REPETITIONS}={number}: give one number; 2 chooses seed0 and seed1")
        return cls(names, int(number))

    @classmethod
    def of_words(cls, words: Iterable[str]) -> "Subset":
        """Read a subset from words of the form KEY=NAME,NAME; a UserError says what is wrong with one."""
        given: dict[str, str] = {}
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or key not in KEYS:
                raise UserError(f"--only {quoted(word)}: give KEY=NAME,NAME; the keys are {', '.join(KEYS)}")
            if key in given:
                raise UserError(f"--only: {key} is given twice; give all its names at once")
            given[key] = value
        return cls.of(given)

    def has(self, cell: Cell) -> bool:
        if self.repetitions is not None and cell.repetition >= self.repetitions:
            return False
        return all(set(names) & set(_NAMES_OF[key](cell)) for key, names in self.names.items())

    def keep(self, every: Sequence[Cell], timed: bool = True) -> list[Cell]:
        """The cells of this subset, in their order, from all cells of some suites.

        Cells that are not `timed` are for what runs have made.

        Raises:
            UserError: no cell has one of the names, a suite has no cell left, or a measured block of timed
                cells would lose a method.
        """
        self._require_known(every)
        if empty := {cell.suite for cell in every} - {cell.suite for cell in every if self.has(cell)}:
            raise UserError(f"{self} chooses no cell of {min(empty)}: leave out this suite, too")
        if timed:
            self._require_whole_blocks(every)
        return [cell for cell in every if self.has(cell)]

    def within(self, every: Sequence[Cell]) -> "Subset":
        """The same without what none of these cells has: several suites are cut by the same names."""
        names = {key: tuple(n for n in given if n in _known(key, every)) for key, given in self.names.items()}
        return Subset(names, self.repetitions and min(self.repetitions, _repetitions(every)))

    def of_methods(self) -> "Subset":
        """What it leaves out of a block: methods."""
        return Subset({key: names for key, names in self.names.items() if key == "methods"})

    def option(self) -> list[str]:
        """The option of commands that work on this subset; empty if nothing is left out."""
        words = [f"{key}={','.join(names)}" for key, names in self.names.items()]
        words += [f"{_REPETITIONS}={self.repetitions}"] if self.repetitions else []
        return ["--only", *words] if words else []

    def __str__(self) -> str:
        return " ".join(self.option()[1:])

    def _require_known(self, every: Sequence[Cell]) -> None:
        suites = ", ".join(dict.fromkeys(cell.suite for cell in every))
        for key, names in self.names.items():
            known = _known(key, every)
            for name in names:
                if name not in known:
                    raise UserError(f"{key}={name} is not in {suites}: the nearest is {nearest(name, known)}")
        if self.repetitions is not None and self.repetitions > (most := _repetitions(every)):
            raise UserError(f"{_REPETITIONS}={self.repetitions} are not in {suites}: there are {most}")

    def _require_whole_blocks(self, every: Sequence[Cell]) -> None:
        """With fewer methods, a measured block is another measurement, and a table could mix the two."""
        chosen = {(cell.suite, cell.block) for cell in every if self.has(cell)}
        for cell in every:
            if cell.has_ranks and (cell.suite, cell.block) in chosen and not self.has(cell):
                raise UserError(
                    f"{self} leaves out methods of {cell.suite}, which measures time with all methods of a "
                    "block side by side: choose data sets, models, workers or repetitions"
                )


WHOLE = Subset()


def _split(key: str, value: object) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in str(value).split(",")))
    if "" in names:
        raise UserError(f"{key}: a name is empty; give KEY=NAME,NAME")
    return names


def _known(key: str, every: Iterable[Cell]) -> list[str]:
    """All names of these cells under a key, each once."""
    return list(dict.fromkeys(name for cell in every for name in _NAMES_OF[key](cell)))


def _repetitions(every: Iterable[Cell]) -> int:
    return max(cell.repetition for cell in every) + 1
