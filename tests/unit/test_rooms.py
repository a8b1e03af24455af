"""The order of the engine's rooms: each imports only what stands above it, and no plug-in."""

import ast

import pytest

from thinwire.plugins import ROOT

# From the ground up. A channel stands below the transports, which deliver the calls that channels define;
# what a transport delivers to is imported for type checking only.
ROOMS = (
    ("errors", "rules", "seeds", "cluster", "label", "stops"),
    ("files", "digests", "options", "resources", "vision"),
    ("traffic",),
    ("channel",),
    ("transport",),
    ("method", "model"),
    ("codecs",),
    ("optim",),
    ("data", "dataset"),
    ("clock", "checkpoint"),
    ("plugins",),
    ("provenance", "record"),
    ("config",),
    ("train",),
    ("launch",),
    ("report",),
    ("tracking",),
    ("pipeline",),
    ("cli",),
)
HEIGHT = {room: height for height, rooms in enumerate(ROOMS) for room in rooms}
FILES = [p for p in sorted((ROOT / "thinwire").rglob("*.py")) if "__" not in p.name]


def room_of(path):
    return path.relative_to(ROOT / "thinwire").with_suffix("").parts[0]


def imported(path):
    """The modules that a file imports at run time."""
    tree = ast.parse(path.read_bytes())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "thinwire":
                yield from (f"thinwire.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_rooms_above_it(path):
    own = room_of(path)
    for name in imported(path):
        parts = name.split(".")
        assert parts[0] not in ("methods", "models", "datasets", "tests", "benchmarks")
        if parts[0] == "thinwire" and len(parts) > 1 and parts[1] in HEIGHT:
            assert HEIGHT[parts[1]] <= HEIGHT[own], f"{path.name} imports {name}"


def test_every_room_has_its_place():
    assert {room_of(path) for path in FILES} == set(HEIGHT)
