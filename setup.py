"""Builds the wheel: the package, and in it, as `thinwire/project/`, what it reads of the rest of the project.

Everything else that a build needs to know is in pyproject.toml. An editable installation copies nothing.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# Plug-ins, suites, the paper, the checks of a method, and the results that `thinwire plan` quotes.
PROJECT = (
    "methods/**/*.py",
    "models/*.py",
    "datasets/*.*",
    "config/**/*.*",
    "paper/**/*.*",
    "benchmarks/records/validation.csv",
    "benchmarks/records/*/io.txt",
    "results/reference/tables/laptop/comparisons.csv",
    "results/reference/times/**/*.csv",
    "tests/*.py",
    "tests/contract/*.py",
    "pyproject.toml",
)


class BuildWithProject(build_py):
    """Builds the package with its part of the project."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib, "thinwire", "project")
        # What an earlier build has left, of files that are gone since then.
        shutil.rmtree(folder, ignore_errors=True)
        for path in _files():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / path)

    def get_source_files(self) -> list[str]:
        """What a source distribution has, too."""
        return [*super().get_source_files(), *map(str, _files())]


def _files() -> list[Path]:
    found = [path for pattern in PROJECT for path in sorted(Path().glob(pattern))]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


setup(cmdclass={"build_py": BuildWithProject})
