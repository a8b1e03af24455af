"""Writes `results/index.html`: all suites that have results, on one page."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

import thinwire
from thinwire.errors import UserError
from thinwire.files import write_text
from thinwire.page.charts import charts
from thinwire.page.claims import claims
from thinwire.page.method_sections import method_sections
from thinwire.page.read_table import read_table
from thinwire.page.run_lines import run_lines
from thinwire.page.suite_data import suite_data
from thinwire.report.result_names import SUMMARY

FILE = "index.html"
_HERE = Path(__file__).parent
# In the order in which the browser reads them.
_SCRIPTS = [
    "data",
    "tables",
    "draw",
    "leaders",
    "choices",
    "curves",
    "break_even",
    "differences",
    "runs",
    "start",
]
_SECTIONS = {
    "leaders": "Leaders",
    "curves": "Curves",
    "break-even": "Break-even",
    "differences": "Differences",
    "claims": "Claims",
    "methods": "Methods",
    "runs": "Runs",
}
_CHOICES = {
    "suite": "Suite",
    "dataset": "Data set",
    "model": "Model",
    "workers": "Workers",
    "place": "Times of",
}


def write(results: Path) -> Path:
    """Write the page, and return its path.

    Raises:
        UserError: as `html` does.
    """
    path = results / FILE
    write_text(path, html(results))
    return path


def html(results: Path) -> str:
    """The page of all suites that have results.

    Raises:
        UserError: there are no results, or a file is missing, damaged, or not as it was collected.
    """
    suites = [suite_data(name, results) for name in _suites(results)]
    methods = method_sections(suites)
    reconstructed = [method["about"].name for method in methods if method["reconstructed"]]
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    return environment.get_template("page.html").render(
        sections=_SECTIONS.items(),
        choices=_CHOICES.items(),
        claims=claims(results),
        methods=methods,
        runs=run_lines(suites),
        version=thinwire.__version__,
        style=_static("page.css"),
        data=_json({"suites": [suite.content for suite in suites], "reconstructed": reconstructed}),
        charts=_json(charts()),
        vega=_vega(),
        script=Markup("\n").join(_static(f"{name}.js") for name in _SCRIPTS),
    )


def _suites(results: Path) -> list[str]:
    """The names of all suites that have results, in the order in which they were collected."""
    path = results / SUMMARY
    rows = read_table(results, path, ["suite"])
    if rows is None or rows.empty:
        what = "is missing" if rows is None else "has no runs"
        raise UserError(f"{path} {what}: run the pipeline, or `thinwire collect SUITE`, first")
    return list(dict.fromkeys(rows.suite))


def _prose(text: str) -> Markup:
    """A sentence, whose names in backticks are shown as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def _vega() -> Markup:
    """The libraries that draw the charts, as one script."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return Markup(bundle.replace("</script", "<\\/script"))


def _static(name: str) -> Markup:
    return Markup((_HERE / "static" / name).read_text(encoding="utf-8"))


def _json(content: Any) -> Markup:
    """JSON for a script element, which no text in it can end."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))
