"""The paper."""

import os
import re
import shutil
import tempfile
from pathlib import Path

import typst
from matplotlib import pyplot as plt

from thinwire.base.errors import UserError
from thinwire.base.files import aside, write_json, writing
from thinwire.config.expand import cells
from thinwire.plugins import about_method
from thinwire.publish.paper import declarations, values
from thinwire.publish.paper.declarations import JUDGED, SOURCES, Bars, Declarations
from thinwire.publish.paper.values import Collected, Value, number_of
from thinwire.report import report_files
from thinwire.report.figures import style
from thinwire.report.report_files import PAPER, SUMMARY
from thinwire.report.rows.collect import read_summary

_INCHES_FOR_A_BAR = 0.24
_INCHES_FOR_THE_AXIS = 0.45
_LESS, _MORE = "0.45", "#c46a00"  # colours of bars to the right and to the left of zero
_BESIDE_POINTS = 2  # between the end of a bar and its number


def draw_bars(bars: Bars, values: dict[str, Value], stem: Path) -> None:
    """Draw the bars from the top, each as long as the number that the paper prints, which stands beside it.

    A `UserError` if there is no value of a name.
    """
    for name in bars.bars.values():
        if name not in values:
            raise UserError(f"a bar in paper/values.yaml: there is no value {name!r}; declare it there")
    style.use()
    texts = [values[name].text for name in bars.bars.values()]
    numbers = list(map(_length, texts))
    height = _INCHES_FOR_THE_AXIS + _INCHES_FOR_A_BAR * len(numbers)
    figure, axes = plt.subplots(figsize=(style.COLUMN_INCHES, height), layout="constrained")
    colours = [_MORE if number < 0 else _LESS for number in numbers]
    drawn = axes.barh(list(bars.bars), numbers, color=colours)
    axes.bar_label(drawn, texts, padding=_BESIDE_POINTS, fontsize=7)
    axes.invert_yaxis()
    axes.axvline(0, color="0.1", linewidth=0.8)
    axes.margins(x=0.4)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(bars.axis)
    style.save(figure, stem)
    plt.close(figure)


def _length(text: str) -> float:
    """The number that a value prints; zero if it prints a word, such as n/a, which then has no bar."""
    try:
        return number_of(text)
    except ValueError:
        return 0.0


# Has all that the paper is made of, so that it can be sent or compiled alone.
FOLDER = "paper"
MAIN = "paper.typ"
# The suite that its text calls the study.
STUDY = "laptop"
_COPIED = ("*.typ", "sections/*.typ", "references.yaml")


def paper(results: Path) -> Path:
    """Write `results/paper/` and compile it to `results/paper.pdf`; returns the path of the PDF.

    Raises:
        UserError: a collected file that the paper needs is missing or was changed, or the text names a value
            or a figure that is not there.
    """
    folder = results / FOLDER
    _write_sources(results, folder)
    pdf = compile_typst(folder)
    with aside(results / PAPER) as scratch:
        scratch.write_bytes(pdf)
    return results / PAPER


def pdf(results: Path) -> bytes:
    """The paper that follows from the collected files now, which writes no result; errors as of `paper`."""
    with tempfile.TemporaryDirectory() as folder:
        _write_sources(results, Path(folder) / FOLDER)
        return compile_typst(Path(folder) / FOLDER)


def collect(declared: Declarations, results: Path) -> Collected:
    """The values and what is missing, from collected files that are as they were written."""
    for suite in _suites(declared):
        read_summary(results, suite)
    for file in (*declared.files.values(), *declared.figures.values()):
        path = file.on_disk(results)
        if path.is_file() and path.is_relative_to(results):
            report_files.require_as_made(results, path)
    return values.collect(declared, results)


def compile_typst(folder: Path) -> bytes:
    """The PDF of the sources in a folder, with typst's own fonts and without a date: the same bytes always.

    Raises:
        UserError: typst refuses the text, for example because it names an unknown value.
    """
    try:
        return typst.compile(folder / MAIN, root=folder, ignore_system_fonts=True)
    except typst.TypstError as error:
        text = re.sub(r"^panicked with: ", "", error.message)
        raise UserError(f"the paper cannot be made: {text.strip(chr(34))}") from None


def _write_sources(results: Path, folder: Path) -> None:
    """Write all that the PDF is made of."""
    declared = declarations.read()
    collected = collect(declared, results)
    with writing(folder):
        shutil.rmtree(folder, ignore_errors=True)
        _copy(declared, collected, results, folder)
    write_json(folder / "values.json", _as_json(declared, collected))


def _copy(declared: Declarations, collected: Collected, results: Path, folder: Path) -> None:
    """Copy the text and the collected figures, and draw the others."""
    for pattern in _COPIED:
        for path in sorted(SOURCES.glob(pattern)):
            target = folder / path.relative_to(SOURCES)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for key, figure in declared.figures.items():
        if key not in collected.missing:
            target = folder / _figure(key, figure.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(figure.on_disk(results), target)
    for key, drawing in declared.bars.items():
        if key not in collected.missing:
            draw_bars(drawing, collected.values, folder / "figures" / key)


def _figure(key: str, path: str) -> str:
    """Where a figure is in the folder of the paper."""
    return f"figures/{key}{os.path.splitext(path)[1]}"


def needed_suites() -> list[str]:
    """The suites without whose runs there is no paper."""
    return _suites(declarations.read())


def _suites(declared: Declarations) -> list[str]:
    """The suites whose runs the paper needs."""
    path = f"results/{SUMMARY}"
    return sorted(
        {file.suite for file in declared.files.values() if file.path == path and file.suite and file.required}
    )


def _as_json(declared: Declarations, collected: Collected) -> dict[str, object]:
    copied = {key: (_figure(key, figure.path), figure.path) for key, figure in declared.figures.items()}
    drawn = {
        key: (f"figures/{key}.pdf", declared.files[drawing.file].path)
        for key, drawing in declared.bars.items()
    }
    return {
        "values": {name: value._asdict() for name, value in collected.values.items()},
        "origins": {
            key: {**origin._asdict(), "runs": [run._asdict() for run in origin.runs]}
            for key, origin in collected.origins.items()
        },
        "figures": {
            key: {"path": path, "source": source}
            for key, (path, source) in (copied | drawn).items()
            if key not in collected.missing
        },
        "parts": {
            method: [(part.what, part.source, part.where) for part in about_method(method).provenance]
            for method in JUDGED
        },
        "options": {} if "study" in collected.missing else options_of(STUDY),
        "missing": collected.missing,
    }


def options_of(suite: str) -> dict[str, str]:
    """The options that a suite gives each method, such as `period 4`; the others have their defaults.

    An option that is tuned may have several values, of several places: `outer_lr 0.4 or 0.8`.
    """
    found: dict[str, dict[str, dict[str, None]]] = {}
    for cell in cells(suite):
        of_method = found.setdefault(cell.method.label, {})
        for key, value in cell.method.options.items():
            of_method.setdefault(key, {})[_shown(value)] = None
    return {
        label: ", ".join(f"{key} {' or '.join(values)}" for key, values in of_method.items())
        for label, of_method in found.items()
    }


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value).lower()
