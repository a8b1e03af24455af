"""Commands in messages can be pasted into a shell."""

from dataclasses import replace
from pathlib import Path

from thinwire.base.names import suggested_command
from thinwire.config.expand import cells
from thinwire.config.yaml_file import Module
from thinwire.train import result_files

CELL = cells("demo")[0]
RUN = f"thinwire run demo {CELL.path}"


def test_the_folder_of_results_is_repeated_if_it_is_not_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for default in (Path("results"), tmp_path / "results"):
        assert suggested_command("list", results=default) == "`thinwire list`"
    for other in (Path("my results"), tmp_path / "my results"):
        assert suggested_command("list", results=other) == "`thinwire list --results 'my results'`"
    assert suggested_command("list", results=Path("/a")) == "`thinwire list --results /a`"


def test_a_command_makes_what_its_message_is_about(tmp_path):
    more = f"--results {tmp_path}"
    assert result_files.run_command(CELL, tmp_path) == f"`{RUN} {more}`"
    deviating = replace(CELL, transport="processes", deviates=True)
    assert result_files.run_command(deviating, tmp_path) == f"`{RUN} --transport processes {more}`"
    measured = replace(CELL, transport="processes")
    assert result_files.advice(measured, tmp_path).endswith(f"`thinwire train demo {CELL.block} {more}`")
    assert result_files.data_command(CELL, tmp_path) == f"`thinwire data digits {more}`"
    small = replace(CELL, data=Module("small", "digits", {"size": 24}))
    expected = f"`thinwire data digits --label small --options '{{\"size\": 24}}' {more}`"
    assert result_files.data_command(small, tmp_path) == expected
