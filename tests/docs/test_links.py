"""Links between files, and into them, lead somewhere; the site is built, and fetches nothing from outside."""

import re

import pytest

from tests.commands import python, succeeded
from tests.docs import pages
from tests.unit.test_rooms import ROOMS
from thinwire.plugins import ROOT


def links(text):
    """The targets of the links and pictures of a page that lie in the project."""
    found = re.findall(r"\]\(([^)\s]+)\)", pages.prose(text))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(text):
    """The names of the headings of a page, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", pages.prose(text), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("path", pages.pages(), ids=pages.name)
def test_links_lead_somewhere(path):
    for target in links(path.read_text()):
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.is_relative_to(ROOT), target
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there.read_text()), target


def test_every_page_of_the_documentation_is_linked_from_another():
    linked = {
        (path.parent / target.partition("#")[0]).resolve()
        for path in pages.pages()
        for target in links(path.read_text())
    }
    alone = [pages.name(p) for p in ROOT.glob("docs/**/*.md") if p not in linked and p.stem != "index"]
    assert not alone


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/api/*.md")), ids=pages.name)
def test_a_page_of_the_reference_says_where_the_docstrings_are_that_the_site_shows(path):
    text = path.read_text()
    shown = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    assert shown
    for name, above in zip(shown, re.split(r"^::: ", text, flags=re.MULTILINE)):
        file = re.sub(r"\.[A-Z]\w*$", "", name).replace(".", "/") + ".py"  # of a module, or of its class
        assert above.strip().splitlines()[-1].startswith(f"[`{file}`](../../{file}): ")


def test_the_page_of_the_architecture_names_files_and_rooms_that_are_there():
    text = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`(thinwire/[a-z_/]+(?:\.py)?)`", text)
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists()] == []
    rooms = re.findall(r'class="name">(\w+)', (ROOT / "docs/architecture.svg").read_text())
    assert sorted(rooms) == sorted(ROOMS)


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


@pytest.mark.slow
def test_pages_fetch_nothing_from_outside(site):
    made = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(made) > 20
    for page in made:
        for match in FETCHED.finditer(page.read_text()):
            address = match["src"] or match["href"] or match["url"]
            assert not re.match(r"(https?:)?//", address), f"{page.name}: {address}"


@pytest.mark.slow
def test_every_page_is_in_the_site(site):
    for path in ROOT.glob("docs/**/*.md"):
        assert (site / path.relative_to(ROOT / "docs").with_suffix(".html")).is_file(), path
    for name in ("rules", "contributing", "suites", "changes"):
        assert (site / f"{name}.html").is_file(), name
