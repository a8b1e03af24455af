"""MkDocs: pages that lie outside docs/, and links that lead out of it.

In the repository a link such as `../RULES.md` leads to a file. On the site that file is the page `rules.md`.
Links to files that are no pages become plain text.
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
# File of the repository: page of the site.
PAGES = {
    "RULES.md": "rules.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "config/README.md": "suites.md",
}
_FILE_OF = {page: file for file, page in PAGES.items()}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside."""
    for file, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / file).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn each link to a file of the repository into one to its page, if it has one."""
    source = page.file.src_uri
    here = PurePosixPath(_FILE_OF.get(source, f"docs/{source}")).parent
    known = {file.src_uri for file in files}

    def on_site(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        file = normpath((here / target).as_posix())
        there = PAGES.get(file, file.removeprefix("docs/") if file.startswith("docs/") else "")
        if there not in known:
            return text
        start = PurePosixPath(source).parent.as_posix()
        return f"[{text}]({relpath(there, start)}{anchor})"

    return _LINK.sub(on_site, markdown)
