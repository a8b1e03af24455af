"""Keeps finished folders by the digest of what they were made from, so that nothing is computed twice.

Snakemake deletes the outputs of a job before it starts the job again. What is still right is copied back from
here. Anybody may delete the store: then it is computed again.
"""

import os
import shutil
from pathlib import Path

from thinwire.base.files import publish, writing


def keep(results: Path, key: str, folder: Path) -> None:
    """Store a copy of a finished folder under its key."""
    _copy(folder, _place(results, key))


def fetch(results: Path, key: str, target: Path) -> bool:
    """Put a copy of what is stored under this key at `target`; False if nothing is."""
    place = _place(results, key)
    if not place.is_dir():
        return False
    _copy(place, target)
    return True


def forget(results: Path, key: str) -> None:
    """Delete what is stored under this key, because it is damaged."""
    shutil.rmtree(_place(results, key), ignore_errors=True)


def _place(results: Path, key: str) -> Path:
    return results / "store" / key[:2] / key


def _copy(folder: Path, target: Path) -> None:
    """Copy a folder, so that the copy is complete or does not exist."""
    scratch = target.with_name(f".{target.name}.new.{os.getpid()}")
    with writing(target):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch)
    publish(scratch, target)
