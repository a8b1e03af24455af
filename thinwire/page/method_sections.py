"""The section about each method: what its module says about it, and its results."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from markdown_it import MarkdownIt
from markupsafe import Markup

from thinwire import plugins
from thinwire.about_method import AboutMethod, about_method
from thinwire.page.suite_data import SuiteData
from thinwire.plugins import PluginError
from thinwire.report.claims.reconstructed import is_reconstructed


def method_sections(suites: Sequence[SuiteData]) -> list[dict[str, Any]]:
    """What the page says about the methods of these suites, sorted by name.

    A module that cannot be used has runs that failed, so its section says what is wrong with it.
    """
    results: dict[str, list[dict[str, Any]]] = {}
    for suite in suites:
        for module in suite.modules.values():
            results.setdefault(module, [])
        for row in suite.leaders.to_dict("records") if suite.leaders is not None else []:
            if row["method"] in suite.modules:
                results[suite.modules[row["method"]]].append(_result(suite.name, row))
    return [_section(name) | {"results": results[name]} for name in sorted(results)]


def _result(suite: str, row: dict[Any, Any]) -> dict[str, Any]:
    size = f"{row['workers']} workers" + (f" on {row['nodes']} nodes" if row["nodes"] > 1 else "")
    numbers = {
        "accuracy": row["accuracy_percent"],
        "payload": row["payload_bytes"] / 1e6,
        "saved": row["saved_percent"],
    }
    return {
        "label": row["method"],
        "suite": suite,
        "where": f"{row['dataset']}, {row['model']}, {size}",
        **{name: None if pd.isna(number) else number for name, number in numbers.items()},
    }


def _section(name: str) -> dict[str, Any]:
    about = _about(name)
    title, _, text = about.docstring.partition("\n")
    # It escapes text, and keeps indented formulas as they are.
    markdown = MarkdownIt("commonmark", {"html": False})
    return {
        "about": about,
        "title": Markup(markdown.renderInline(title)),
        "text": Markup(markdown.render(text)),
        "reconstructed": is_reconstructed(name),
    }


def _about(name: str) -> AboutMethod:
    try:
        return about_method(name)
    except PluginError as error:
        path = plugins.show(plugins.get("method", name).path)
        return AboutMethod(name, path, f"The module cannot be used: {error}", [], [], [], [], ())
