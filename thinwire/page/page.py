"""Writes `results/index.html`: all suites that have results, on one page."""

import json
import re
from functools import cache
from pathlib import Path

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

import thinwire
from thinwire import plugins
from thinwire.about_method import AboutMethod, about_method
from thinwire.errors import UserError
from thinwire.files import write_text
from thinwire.page.runs import cell_names, columns, read_table
from thinwire.page.suite_data import suite_data
from thinwire.report.claims.reconstructed import is_reconstructed
from thinwire.report.collect import suites_to_show
from thinwire.report.result_names import CLAIMS, FEWEST_REPETITIONS, PAGE

_HERE = Path(__file__).parent
_NOT_SHOWN = ["metric", "direction", "margin", "statistic", "reason", "dataset", "model", "workers", "nodes"]


def write(results: Path) -> Path:
    """Write the page, and return its path.

    Raises:
        UserError: as `html` does.
    """
    path = results / PAGE
    write_text(path, html(results))
    return path


def html(results: Path) -> str:
    """The page of all suites that have results.

    Raises:
        UserError: there are no results, or a file is missing, damaged, or not as it was collected.
    """
    suites = [suite_data(name, results) for name in suites_to_show(results)]
    claims = _claims(results)
    methods = sorted({module for suite in suites for module in suite["modules"].values()})
    reconstructed = [name for name in methods if is_reconstructed(name)]
    environment = Environment(loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined)
    environment.filters["prose"] = _prose
    data = {"suites": suites, "reconstructed": reconstructed, "claims": claims}
    as_json = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return environment.get_template("templates/page.html").render(
        has_claims=claims is not None,
        methods=[_method(name) for name in methods],
        reconstructed=reconstructed,
        fewest_repetitions=FEWEST_REPETITIONS,
        version=thinwire.__version__,
        data=Markup(as_json.replace("<", "\\u003c")),  # no text in it ends a script element
        vega=_vega(),
        static=lambda name: Markup((_HERE / "static" / name).read_text(encoding="utf-8")),
    )


def _claims(results: Path) -> dict[str, object] | None:
    """The rows of the table of claims; None if there are no verdicts yet."""
    table = read_table(results, results / CLAIMS)
    if table is None:
        return None
    try:
        return columns(table.assign(cell=cell_names(table)).drop(columns=_NOT_SHOWN, errors="ignore"))
    except (KeyError, AttributeError) as error:
        raise UserError(f"{results / CLAIMS} lacks a column ({error}): make it again") from None


def _method(name: str) -> dict[str, object]:
    """What its module says about a method. One that cannot be used has runs that failed, so this says why."""
    try:
        about = about_method(name)
    except plugins.PluginError as error:
        path = plugins.show(plugins.get("method", name).path)
        about = AboutMethod(name, path, f"The module cannot be used: {error}", [], [], [], [], ())
    title, _, text = about.docstring.partition("\n")
    # It escapes text, and keeps indented formulas as they are.
    markdown = MarkdownIt("commonmark", {"html": False})
    title, text = markdown.renderInline(title), markdown.render(text)
    return {"about": about, "title": Markup(title), "text": Markup(text)}


def _prose(text: str) -> Markup:
    """A sentence, whose names in backticks are shown as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def _vega() -> Markup:
    """The libraries that draw the charts, as one script, whose short names stay in it."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return Markup("(() => {" + bundle.replace("</script", "<\\/script") + "\n})()")
