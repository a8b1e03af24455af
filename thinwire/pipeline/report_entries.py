"""Which outputs of the pipeline `snakemake --report` shows, with their captions and categories."""

from collections.abc import Iterable
from pathlib import Path, PurePath

from snakemake.io import report

from thinwire.plugins import ROOT

_CAPTIONS = ROOT / "workflow" / "report"
# Of the formats in which a figure or a table is written, those that a report can show.
_CATEGORIES = {".png": "Figures", ".csv": "Tables", ".html": "Page"}


def entries(paths: Iterable[str]) -> list[str]:
    """The same paths; those that a report shows have the flag with which Snakemake knows them."""
    return [_entry(path) for path in paths]


def _entry(path: str) -> str:
    place = PurePath(path)
    category = _CATEGORIES.get(place.suffix)
    if category is None:
        return path
    # results/figures/SUITE/NAME.png, where the name of a suite may have slashes
    suite = "/".join(place.parts[2:-1]) or "all suites"
    flagged: str = report(
        path,
        caption=str(caption_of(place.stem, category)),
        category=category,
        subcategory=suite,
        labels={"name": place.stem.replace("_", " ")},
    )
    return flagged


def caption_of(name: str, category: str) -> Path:
    """The file with the caption of an output: its own, or else that of its category."""
    own = _CAPTIONS / f"{name}.rst"
    return own if own.exists() else _CAPTIONS / f"{category.lower()}.rst"
