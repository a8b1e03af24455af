"""Do the tests notice when one line of thinwire is wrong?

`mutations.diff` has lines of thinwire/ and what each becomes. In a copy of the project, with an environment
of its own, the tests run once and show which test files reach which of these lines, in whatever process. Then
one line after the other is changed, and the test files that reach it run until one fails.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".diff")
FEWEST_FOUND = 37
QUICK_FILE_SECONDS = 10.0  # of a test file that runs before the others
MOST_SECONDS = 1800.0  # of the test files of one mutation; a change may make the tests wait for ever


class Mutation(NamedTuple):
    """A line without its indentation, and what it becomes."""

    number: int
    area: str
    line: str
    becomes: str

    def place(self, root: Path) -> tuple[Path, int]:
        """The only place in thinwire/ with this line: the file, and the number of the line from 0.

        Raises:
            SystemExit: there is none, or there are several.
        """
        found = [
            (path, number)
            for path in sorted((root / "thinwire").rglob("*.py"))
            for number, line in enumerate(path.read_text().splitlines())
            if line.strip() == self.line
        ]
        if len(found) != 1:
            raise SystemExit(f"{LIST.name}: {len(found)} lines of thinwire/ are {self.line!r}: name one")
        return found[0]


def main() -> int:
    """Print what finds each mutation, and how many are found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="also run the tests that `make test` leaves out")
    parser.add_argument("--only", type=int, nargs="+", default=[], help="numbers of mutations")
    arguments = parser.parse_args()
    every = list(read())
    chosen = [m for m in every if m.number in (arguments.only or range(len(every) + 1))]
    tests = [] if arguments.all else ["-m", "not slow"]
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder) / "thinwire", tests)
        reached, seconds = copy.reach(chosen)
        missed = []
        for mutation in chosen:
            began = time.perf_counter()
            files = sorted(reached[mutation.number], key=lambda name: seconds.get(name, 0.0))
            found = copy.first_failure(mutation, files, seconds)
            path, line = mutation.place(ROOT)
            where = f"{mutation.number:3} {mutation.area:10} {path.relative_to(ROOT)}:{line + 1}"
            took = f"{len(files)} files reach it, {time.perf_counter() - began:.0f} s"
            print(f"{where}: {found or 'MISSED'} ({took})", flush=True)
            if found is None:
                missed.append(mutation)
    least = len(chosen) if arguments.all or arguments.only else FEWEST_FOUND
    print(f"found {len(chosen) - len(missed)} of {len(chosen)} (target: at least {least})")
    return 0 if len(chosen) - len(missed) >= least else 1


def read() -> Iterator[Mutation]:
    """The mutations, numbered from 1."""
    area, line, number = "", "", 0
    for row in LIST.read_text().splitlines():
        mark, _, rest = row.partition(" ")
        if mark == "@@":
            area = rest
        elif mark == "-":
            line = rest
        elif mark == "+":
            number += 1
            yield Mutation(number, area, line, rest)


class Copy:
    """A copy of the project in which the tests run."""

    def __init__(self, root: Path, tests: Sequence[str]) -> None:
        """Copy what git tracks, as it is now, and make the environment."""
        self._root, self._tests = root, tests
        subprocess.run(["git", "clone", "--quiet", ROOT, root], check=True)
        changed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--modified", "--deleted", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for name in set(changed):
            (root / name).unlink(missing_ok=True)
            if (ROOT / name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
        subprocess.run(["make", "setup"], cwd=root, check=True, stdout=subprocess.DEVNULL)

    def reach(self, mutations: Sequence[Mutation]) -> tuple[dict[int, set[str]], dict[str, float]]:
        """The test files that reach each mutation, and the seconds that each test file takes."""
        seen = self._root.parent / "seen"
        before: dict[Path, str] = {}
        places = defaultdict(list)
        for mutation in mutations:
            (seen / str(mutation.number)).mkdir(parents=True)
            path, line = mutation.place(self._root)
            before[path] = path.read_text()
            places[path].append((_statement(before[path], line), mutation.number))
        for path, found in places.items():
            lines = before[path].splitlines(keepends=True)
            for line, number in sorted(found, reverse=True):
                indentation = lines[line][: -len(lines[line].lstrip())]
                lines.insert(line, f"{indentation}{_trace(seen / str(number))}\n")
            path.write_text("".join(lines))
        report = self._root.parent / "report.xml"
        self._pytest([f"--junitxml={report}"])
        for path, text in before.items():
            path.write_text(text)
        seconds: dict[str, float] = defaultdict(float)
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.get("classname", "").replace(".", "/") + ".py"
            seconds[name] += float(case.get("time", 0))
        reached = {
            m.number: {p.name.replace("+", "/") for p in (seen / str(m.number)).iterdir()} for m in mutations
        }
        return {
            number: {name for name in names if name in seconds} for number, names in reached.items()
        }, seconds

    def first_failure(
        self, mutation: Mutation, files: Sequence[str], seconds: dict[str, float]
    ) -> str | None:
        """The first test that fails with this mutation; None: all pass."""
        path, line = mutation.place(self._root)
        text = path.read_text()
        lines = text.splitlines(keepends=True)
        lines[line] = lines[line].replace(mutation.line, mutation.becomes)
        path.write_text("".join(lines))
        try:
            quick = [name for name in files if seconds[name] <= QUICK_FILE_SECONDS]
            for part in (quick, [name for name in files if name not in quick]):
                if part and (failed := self._pytest(["-x", *part])):
                    return failed
        finally:
            path.write_text(text)
        return None

    def _pytest(self, arguments: Sequence[str]) -> str | None:
        """Run tests, and give the name of the first that failed."""
        # A test of this script's own list fails whatever is mutated, so it finds nothing.
        command = [".venv/bin/python", "-m", "pytest", "--ignore=tests/benchmarks", "-rfE"]
        command += ["-n", "auto", "--dist", "loadfile"]
        try:
            ended = subprocess.run(
                [*command, "--no-loadscope-reorder", *self._tests, *arguments],
                cwd=self._root,
                capture_output=True,
                text=True,
                timeout=MOST_SECONDS,
                env={k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"},
            )
        except subprocess.TimeoutExpired:
            return "the tests do not end"
        failed = [
            row.split(" ")[1] for row in ended.stdout.splitlines() if row.startswith(("FAILED ", "ERROR "))
        ]
        if ended.returncode not in (0, 5) and not failed:  # 5: no test is left to run
            return f"pytest exits with {ended.returncode}"
        return failed[0] if failed else None


def _statement(text: str, line: int) -> int:
    """The line, from 0, at which the innermost statement begins that contains this line."""
    rows, found = text.splitlines(), 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and node.lineno - 1 <= line < (node.end_lineno or 0):
            begins = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1
            if not rows[begins].lstrip().startswith("elif "):
                found = max(found, begins)
    return found


def _trace(folder: Path) -> str:
    """A statement that leaves an empty file with the name of the test file that reaches it."""
    system = '__import__("os")'
    name = f'{system}.environ.get("PYTEST_CURRENT_TEST", "none").split("::")[0].replace("/", "+")'
    return f'{system}.close({system}.open("{folder}/" + {name}, {os.O_CREAT}))'


if __name__ == "__main__":
    sys.exit(main())
