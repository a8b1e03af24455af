"""The schedules that the documentation shows are what the command prints."""

import re
import shlex

import pytest

from tests.docs import pages
from thinwire.cli import prepare, trace
from thinwire.cli.main import _parser

PRINTED = re.compile(
    r"^<!-- printed by thinwire (?P<command>schedule .*?) -->\n```\n(?P<printed>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
SHOWN = [
    pytest.param(match["command"], match["printed"], id=f"{pages.name(path)}: {match['command']}")
    for path in pages.pages()
    for match in PRINTED.finditer(path.read_text())
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    prepare.data_main(_parser().parse_args(["data", "digits", "--results", str(folder)]))
    return str(folder)


def test_two_schedules_are_shown():
    assert len(SHOWN) == 2


@pytest.mark.parametrize(("command", "printed"), SHOWN)
def test_a_schedule_is_what_the_command_prints(results, command, printed, capsys):
    arguments = _parser().parse_args([*shlex.split(command), "--results", results])
    capsys.readouterr()
    assert trace.schedule_main(arguments) == 0
    assert capsys.readouterr().out == printed
