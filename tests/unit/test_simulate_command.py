"""`thinwire simulate` says when it simulates something else than the suite asks for."""

import pandas as pd
import pytest

from thinwire.cli import simulate as command
from thinwire.cli.main import _parser
from thinwire.simulation import simulated_file

ROW = dict.fromkeys(simulated_file.COLUMNS, 1)


@pytest.mark.parametrize(
    ("words", "other"),
    [
        (["demo"], False),
        (["demo", "--cluster", "wan_100m"], True),
        (["demo", "--steps", "7"], True),
        (["laptop", "--cluster", "wan_100m"], False),  # which asks for nothing
    ],
)
def test_times_that_a_suite_does_not_ask_for_are_named(monkeypatch, tmp_path, capsys, words, other):
    monkeypatch.setattr(command, "simulate_suite", lambda *arguments: pd.DataFrame([ROW]))
    monkeypatch.setattr(command, "described", lambda rows: [])
    arguments = _parser().parse_args(["simulate", *words, "--results", str(tmp_path)])
    assert command.main(arguments) == 0
    printed = capsys.readouterr().err
    assert ("other times than config/demo.yaml asks for: `thinwire simulate demo" in printed) == other
    assert simulated_file.path_of(tmp_path, words[0]).exists()
