"""The order of the engine's rooms: each imports only rooms that come before it, and no plug-in."""

import ast
from functools import cache
from graphlib import TopologicalSorter

from thinwire.plugins import ROOT

# From the ground up.
ROOMS = (
    "base",
    "traffic",
    "trace",
    "optim",
    "data",
    "transport",
    "codecs",
    "api",
    "plugins",
    "config",
    "emulation",
    "records",
    "train",
    "launch",
    "simulation",
    "submissions",
    "report",
    "publish",
    "audit",
    "pipeline",
    "cli",
)
HEIGHT = {room: height for height, room in enumerate(ROOMS)}
OUTSIDE = ("methods", "models", "datasets", "tests", "benchmarks")
FILES = [p for p in sorted((ROOT / "thinwire").rglob("*.py")) if "__" not in p.name]


def room_of(path):
    return path.relative_to(ROOT / "thinwire").with_suffix("").parts[0]


@cache
def imported(path):
    """The modules that a file imports, for type checking only or not."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def upwards(path):
    """What a file imports from a room above its own, and of plug-ins."""
    for name in imported(path):
        parts = name.split(".")
        of_engine = parts[0] == "thinwire" and len(parts) > 1 and parts[1] in HEIGHT
        if parts[0] in OUTSIDE or (of_engine and HEIGHT[parts[1]] > HEIGHT[room_of(path)]):
            yield f"{path.relative_to(ROOT)} imports {name}"


def test_a_room_imports_only_rooms_before_it():
    assert [line for path in FILES for line in upwards(path)] == []


def test_every_room_has_its_place():
    assert {room_of(path) for path in FILES} == set(HEIGHT)


def test_no_files_import_each_other():
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES}
    ordered = TopologicalSorter({name: names.keys() & imported(path) for name, path in names.items()})
    ordered.prepare()  # raises a CycleError that names the circle
