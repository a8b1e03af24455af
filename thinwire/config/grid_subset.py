"""A subset of the grid, chosen with `--config` or `--only`: some of its cells, unchanged.

A cell has the same path and fingerprint as in the whole grid, so its record is the same.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from thinwire.base.errors import UserError, nearest, quoted
from thinwire.config.cell import Cell

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
