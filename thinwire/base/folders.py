"""Where plug-ins, suites and results are, and what they may be called."""

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from thinwire.base.errors import UserError, quoted

PACKAGE = Path(__file__).resolve().parents[1]
_IN_PACKAGE = PACKAGE / "project"
# The folder with the project's methods/, models/, datasets/ and config/: a clone of the repository, or what
# setup.py has put into an installed package.
ROOT = _IN_PACKAGE if _IN_PACKAGE.is_dir() else PACKAGE.parent
PARTS = ("methods", "models", "datasets", "config")
# What Snakemake runs: each folder has its own.
SNAKEMAKE = Path("config/config.yaml")
# Names the folder of one's own.
VARIABLE = "THINWIRE_PLUGINS"
# What others have submitted: each folder in it has plug-ins and records.
SUBMISSIONS = "submissions"
DEFAULT_RESULTS = Path("results")
# The results that are committed.
REFERENCE = DEFAULT_RESULTS / "reference"
# File systems allow names of 255 bytes, and the engine adds prefixes and suffixes to a label.
LONGEST_LABEL = 100
_LABEL = rf"[A-Za-z0-9][A-Za-z0-9_.+-]{{0,{LONGEST_LABEL - 1}}}"
_RULE = f"at most {LONGEST_LABEL} letters, digits and . _ + -, beginning with a letter or a digit"


def own() -> Path | None:
    """The folder with plug-ins and suites of one's own, which are found beside those of the project.

    It is the one that `THINWIRE_PLUGINS` names, or else the working folder if it has one of `PARTS`. No
    folder inside the project is one's own, except a submission that is named.

    Raises:
        UserError: the variable names no folder, or another one inside the project.
    """
    named = os.environ.get(VARIABLE)
    folder = Path(named or ".").absolute()
    if named and not folder.is_dir():
        raise UserError(
            f"there is no folder {named}: --plugins and {VARIABLE} name the one that has your "
            f"{'/, '.join(PARTS[:-1])}/ and {PARTS[-1]}/"
        )
    is_one = named or any((folder / part).is_dir() for part in PARTS)
    submitted = bool(named) and folder.is_relative_to(ROOT / SUBMISSIONS)
    if named and not submitted and ROOT in folder.parents:
        raise UserError(
            f"--plugins and {VARIABLE} cannot name {named}, which is inside of thinwire's own folder {ROOT}: "
            "move yours out of it"
        )
    return folder if is_one and (submitted or not folder.is_relative_to(ROOT)) else None


def belongs(path: Path, folder: Path) -> bool:
    """Is this file one of this folder's own? In its virtual environment, the project may be installed."""
    installed = ROOT.is_relative_to(folder) and path.is_relative_to(ROOT)
    return path.is_relative_to(folder) and not installed


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Let a variable have this value meanwhile. Afterwards it is as it was: it may have been missing."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def named(folder: Path) -> AbstractContextManager[None]:
    """Let this folder be one's own meanwhile, also for processes that are started."""
    return variable(VARIABLE, str(folder.absolute()))


def environment() -> dict[str, str]:
    """The variables for a process that has the same folder of one's own, wherever it works."""
    found = own()
    return {**os.environ, **({} if found is None else {VARIABLE: str(found)})}


def every(root: Path = ROOT) -> list[Path]:
    """The project's folder, and one's own if there is one."""
    found = own()
    return [root] if found is None else [root, found]


def home(path: str, root: Path = ROOT) -> Path:
    """The folder that has the file with this path: one's own, or else the project's.

    Raises:
        UserError: both have it, with different content.
    """
    having = [folder for folder in every(root) if os.path.lexists(folder / path)]
    if len(having) > 1 and _differ(*[folder / path for folder in having]):
        raise _twice(path, *having)
    return having[0] if having else root


def below(folder: Path, root: Path = ROOT) -> dict[str, Path]:
    """The YAML files below a folder of the project and the same one of one's own, by path without `.yaml`.

    Raises:
        UserError: a name exists twice, with different content.
    """
    found: dict[str, Path] = {}
    mine = own()
    for place in [folder] if mine is None else [folder, mine / folder.relative_to(root)]:
        for path in sorted(place.rglob("*.yaml")):
            name = path.relative_to(place).with_suffix("").as_posix()
            if name in found and path.relative_to(place.parent) != SNAKEMAKE and _differ(path, found[name]):
                raise _twice(f"{name}.yaml", found[name].parent, path.parent)
            found.setdefault(name, path)
    return found


def _differ(one: Path, other: Path) -> bool:
    """Do two files differ? Where Snakemake's workflows are deployed, `config/` is copied."""
    return not (one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes())


def _twice(name: str, first: Path, second: Path) -> UserError:
    return UserError(f"{name} is both in {first} and in {second}: rename one of them")


def require_label(label: str) -> str:
    """Check and return a label, the name of a folder; a `UserError` says why it is none."""
    if not re.fullmatch(_LABEL, label):
        raise UserError(f"{quoted(label)} cannot be a label: take {_RULE}")
    return label


def require_suite_name(name: str) -> str:
    """Return the name of a suite, the path of its file under `config/`; a `UserError` says why it is none."""
    if not all(re.fullmatch(_LABEL, part) for part in name.split("/")):
        raise UserError(
            f"{quoted(name)} cannot be the name of a suite: for each part between slashes take {_RULE}"
        )
    return name


def clash(names: Iterable[str]) -> str | None:
    """Say which two names differ only in upper and lower case, and what to do; None if no two do."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name.casefold(), name)
        if first != name:
            return (
                f"{first} and {name} differ in upper and lower case only, which some file systems do not "
                "tell apart: give one another label"
            )
    return None


def flat(suite: str) -> str:
    """Replace slashes and plus signs in a suite's name: `claims/mp2` becomes `claims-mp2`.

    The result is unique: a name that contains plus signs or hyphens itself gets a digest as a suffix.
    """
    readable = re.sub("[/+]", "-", suite)
    if re.search("[+-]", suite):
        readable += f"-{hashlib.sha256(suite.encode()).hexdigest()[:8]}"
    return readable


def suggested_command(*words: str, results: Path) -> str:
    """A `thinwire` command in backticks, quoted for a shell, with the folder of results if need be."""
    here, folder = Path.cwd(), results.absolute()
    if folder.is_relative_to(here):
        folder = folder.relative_to(here)
    if folder != DEFAULT_RESULTS:
        words = (*words, "--results", str(folder))
    return f"`{shlex.join(('thinwire', *words))}`"
