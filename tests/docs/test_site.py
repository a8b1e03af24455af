"""The site is built without a warning, and its pages ask for nothing from outside."""

import re

import pytest

from tests.commands import python, succeeded
from thinwire.plugins import ROOT

pytestmark = pytest.mark.slow

# What a browser fetches by itself when it shows a page; links (<a href>) wait for a click.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=["']?(?P<src>[^"'\s>]+)"""
    r"""|<link\b[^>]*?\bhref=["']?(?P<href>[^"'\s>]+)"""
    r"""|(?:url\(|@import\s+)["']?(?P<url>[^"')\s]+)""",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = ("mkdocs", "build", "--strict", "--quiet", "--site-dir", folder)
    succeeded(python("-m", *command, NO_MKDOCS_2_WARNING="1"))
    return folder


def test_pages_fetch_nothing_from_outside(site):
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 20
    for page in pages:
        for match in FETCHED.finditer(page.read_text()):
            address = match["src"] or match["href"] or match["url"]
            assert not re.match(r"(https?:)?//", address), f"{page.name}: {address}"


def test_every_page_is_in_it(site):
    for path in ROOT.glob("docs/**/*.md"):
        assert (site / path.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), path
    for name in ("rules", "contributing", "suites", "changes"):
        assert (site / f"{name}.html").is_file(), name
