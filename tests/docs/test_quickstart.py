"""The notebook for Python users runs from its first cell to its last, in an empty folder."""

import os
import sys

import nbformat
import pytest

from thinwire.plugins import ROOT

NOTEBOOK = ROOT / "docs/quickstart.ipynb"


def cells(kind):
    return [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == kind]


def test_the_notebook_is_short_and_has_no_outputs():
    assert len(cells("code")) + len(cells("markdown")) <= 15
    assert not any(cell.outputs or cell.execution_count for cell in cells("code"))


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("PATH", f"{sys.prefix}/bin", prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (checked,) = said(notebook, "!thinwire check")
    assert "keeps the contract in one process" in checked["text"]
    (means,) = said(notebook, "import thinwire\n")
    assert all(
        f"\n{method} " in means["data"]["text/plain"] for method in ("mine", "mine_4", "ssgd", "top_k")
    )
    (figure,) = said(notebook, "import seaborn")
    assert "image/png" in figure["data"]
    *_, counted = said(notebook, "import pandas")
    # Of each of ten steps: a gradient of 650 numbers, of which a ring of two workers sends as much.
    assert "all_reduce  (0, 1)     10  26000     26000" in counted["data"]["text/plain"]


def said(notebook, beginning):
    """The outputs of the cell that begins so."""
    (cell,) = (cell for cell in notebook.cells if cell.source.startswith(beginning))
    return cell.outputs
