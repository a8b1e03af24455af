"""What the tests of tracking share: a home folder of their own, in which W&B is only on 127.0.0.1."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import commands
from tests.tracking.stub import Stub
from thinwire.plugins import ROOT
from thinwire.publish.wandb import client

CANARY = "canary" + "0123456789" * 4
# By default nothing listens on port 9 of a machine.
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    client.forget()  # it has read the environment of an earlier test
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("WANDB_BASE_URL", NOWHERE)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_API_KEY", CANARY)
    monkeypatch.setenv("OTHER_SECRET", CANARY)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A server that the environment names."""
    with Stub() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        yield server


def python(
    *arguments: object, folder: Path = ROOT, first: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python -m ARGUMENTS` with the engine in `folder`; modules in `first` hide others.

    If `folder` is the checkout, it runs in the home folder, because W&B would leave logs in the checkout.
    """
    return commands.python(
        "-m",
        *arguments,
        folder=os.environ["HOME"] if folder == ROOT else folder,
        path=f"{first or folder}{os.pathsep}{folder}",
    )


def warnings_of(text: str) -> Sequence[str]:
    """The lines with warnings about W&B."""
    return [line for line in text.splitlines() if "W&B" in line or "wandb:" in line]


def containing_the_canary(*folders: Path) -> list[Path]:
    """The files that contain the key, in their name or their content."""
    return [
        path
        for folder in folders
        for path in folder.rglob("*")
        if CANARY in path.name or (path.is_file() and CANARY.encode() in path.read_bytes())
    ]
