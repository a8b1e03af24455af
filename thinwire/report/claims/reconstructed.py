"""Which methods are reconstructed: where a part of the publication was not available, the choice is ours."""

import ast

from thinwire import plugins


def is_reconstructed(use: str) -> bool:
    """Does the docstring of this module in methods/ say so? This does not run its code."""
    try:
        tree = ast.parse(plugins.get("method", use).path.read_bytes())
    except SyntaxError:
        return False  # it has no docstring, and its runs have failed
    return "reconstructed" in (ast.get_docstring(tree) or "").lower()
