"""Texts as windows of characters, of which each is to be predicted from those before it.

A window lies within one work, and no character is predicted twice: the windows of a work begin `context`
characters apart, and each has one more than `context`. What is left at the end of a work is dropped.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from thinwire.base.errors import UserError
from thinwire.data.dataset import Dataset, Raw

# Those of Shakespeare's works, in the order of their codes.
CHARACTERS = "\n !\"&'()*,-./0123456789:;?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz{}"
_OTHERS = re.compile(f"[^{re.escape(CHARACTERS)}]")
# At least so much of the text is kept for testing, as whole works: parts of one would share their roles.
_TEST_SHARE = 0.05


class Text(Dataset):
    """The base of these data sets: a subclass finds the works. All have the same characters."""

    classes = len(CHARACTERS)

    @dataclass
    class Config:
        context: Annotated[int, Field(ge=1)] = 64  # characters of a window, each of which predicts the next
        windows: Annotated[int, Field(ge=1)] | None = None  # the first of the training set; None: all of them

    config: Config

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config)
        self.shape = (self.config.context,)

    def works(self, place: Path | None) -> dict[str, bytes]:
        """Find the works, verify and return them, in the order in which they are divided.

        Args:
            place: the user's folder with them; None: their usual place.

        Returns:
            The text of each in `CHARACTERS`, by title.

        Raises:
            UserError: a file is missing or is not the expected one.
        """
        raise NotImplementedError

    def lengths(self) -> list[int]:
        """Return the characters of each work to train on, in their order, without the user's folder.

        A data set that declares `clients` overrides it: these works are its natural clients.
        """
        return []

    def training_inputs(self) -> int | None:
        """Return the number of windows to train on, if the lengths of the works are known."""
        return len(self.client_of_each(np.empty(0))) or None

    def client_of_each(self, labels: np.ndarray) -> np.ndarray:
        """Return the number of the work of each window to train on: [N]."""
        # What is left at the end of a work is dropped, and its last character is only predicted.
        windows = [(length - 1) // self.config.context for length in self.lengths()]
        return np.repeat(np.arange(len(windows)), windows)[: self.config.windows]

    def raw(self, place: Path | None) -> Raw:
        """Return all windows; a data set overrides it whose windows lie within parts of works."""
        return raw_of(self.works(place), self.config.context)

    def fetch(self, place: Path | None, download: Path) -> Raw:
        """Cut the works into windows.

        Raises:
            UserError: a work is missing, damaged, or too short for one window.
        """
        raw = self.raw(place)
        used = slice(self.config.windows)
        return raw._replace(train_inputs=raw.train_inputs[used], train_labels=raw.train_labels[used])


def by_title(works: Iterable[bytes]) -> dict[str, bytes]:
    """Return works by their titles: each begins with a line that is its own."""
    return {work.partition(b"\n")[0].decode(): work for work in works}


def with_known_characters(text: str) -> bytes:
    """Return a text in `CHARACTERS`: a question mark is in the place of each other one."""
    return _OTHERS.sub("?", text).encode()


def raw_of(works: Mapping[str, bytes], context: int) -> Raw:
    """Return the windows of works; the last works, which have 5 % of all characters, are for testing.

    Args:
        works: the text of each in `CHARACTERS`, by name, in the order in which they are divided.
        context: characters that a window has before the last.

    Raises:
        UserError: a work is too short for one window.
    """
    shortest = min(works, key=lambda name: len(works[name]))
    if len(works[shortest]) <= context:
        raise UserError(
            f"a context of {context:,} characters is longer than {shortest}, which has "
            f"{len(works[shortest]):,}: choose a context of at most {len(works[shortest]) - 1:,}"
        )
    to_train, to_test = ([works[name] for name in names] for names in divided(works))
    return windows_of(to_train, to_test, context)


def windows_of(train: Iterable[bytes], test: Iterable[bytes], context: int) -> Raw:
    """Return the windows of texts to train on and for testing, each of which has more than `context`."""
    to_train, to_test = (np.concatenate([_windows(one, context) for one in part]) for part in (train, test))
    return Raw(to_train[:, :-1], to_train[:, 1:], to_test[:, :-1], to_test[:, 1:])


def divided(works: Mapping[str, bytes]) -> tuple[list[str], list[str]]:
    """Return the names of the works to train on, and of the last ones, which are for testing."""
    names, tested = list(works), 0
    test: list[str] = []
    while tested < _TEST_SHARE * sum(map(len, works.values())):
        test.insert(0, names.pop())
        tested += len(works[test[0]])
    return names, test


def _windows(work: bytes, context: int) -> np.ndarray:
    """The numbers of the characters of all windows of a work, uint8 [n, context + 1]."""
    codes = np.zeros(256, np.uint8)
    codes[np.frombuffer(CHARACTERS.encode(), np.uint8)] = np.arange(len(CHARACTERS))
    numbers = codes[np.frombuffer(work, np.uint8)]
    return np.lib.stride_tricks.sliding_window_view(numbers, context + 1)[::context]
