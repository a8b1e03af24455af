"""The documentation quotes what benchmarks and commands print: the newest records, schedules, answers.

The commands of docs/questions.md succeed, and print what the page quotes, with numbers of their own.
"""

import argparse
import re
import runpy
import shlex
import sys

import pytest

from benchmarks import questions, record, update_docs
from tests import processes, project
from tests.docs import pages
from thinwire import plugins
from thinwire.cli import trace
from thinwire.cli.arguments import parser
from thinwire.plugins import ROOT

BENCHMARKS = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if "record.run(" in path.read_text()
)


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))], ids=pages.name)
def test_quoted_blocks_and_tables_are_the_newest(path):
    text = path.read_text()
    assert len(update_docs.names(text)) == len(re.findall(r"<!-- \w+: \w+ -->", text))
    assert update_docs.quoted(text) == text, "python -m benchmarks.update_docs writes it again"


def test_every_benchmark_is_quoted():
    quoted = [
        (ROOT / f"docs/{page}.md").read_text()
        for page in ("performance", "questions", "gpu", "large_networks")
    ]
    assert sorted({name for text in quoted for name in update_docs.names(text)}) == BENCHMARKS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_newest_record_of_a_benchmark_meets_its_targets(name):
    assert update_docs.newest(name).endswith("\nexit code 0\n")


def test_no_other_page_shows_what_a_benchmark_printed():
    for path in pages.pages():
        names = update_docs.names(path.read_text())
        quoted = [update_docs.targets(update_docs.newest(name)) for name in names]
        for language, content in pages.blocks(path.read_text()):
            assert language or content in quoted or "target <=" not in content, pages.name(path)


def _load_benchmarks():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    for name in BENCHMARKS:
        runpy.run_path(str(ROOT / f"benchmarks/{name}.py"))


def test_every_benchmark_can_be_loaded():
    processes.apart(_load_benchmarks)


def test_a_record_says_where_and_what_and_names_no_host(tmp_path, monkeypatch, capsys):
    def measure(arguments: argparse.Namespace) -> int:
        print(f"a figure of {arguments.size}")
        return 1

    monkeypatch.setattr(record, "FOLDER", tmp_path / "benchmarks" / "records")
    monkeypatch.setattr(sys, "argv", ["benchmarks/thing.py", "--record", "--size", "2 3"])
    assert record.run(measure, lambda parser: parser.add_argument("--size")) == 1
    (path,) = tmp_path.rglob("*.txt")
    where = path.relative_to(tmp_path).as_posix()
    assert re.fullmatch(r"benchmarks/records/\d{4}-\d\d-\d\d/thing\.txt", where)
    *about, command, printed, code = path.read_text().splitlines()
    keys = [line.removeprefix("# ").partition(":")[0] for line in about]
    assert keys == ["date", "machine", "system", "commit", "load of the machine before the run"]
    assert command == "$ python benchmarks/thing.py --size '2 3'"
    assert (printed, code) == ("a figure of 2 3", "exit code 1")
    assert "a figure of 2 3" in capsys.readouterr().out


def test_without_record_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "FOLDER", tmp_path / "benchmarks" / "records")
    monkeypatch.setattr(sys, "argv", ["benchmarks/thing.py"])
    assert record.run(lambda arguments: 0) == 0
    assert not list(tmp_path.iterdir())


PRINTED = re.compile(
    r"^<!-- printed by thinwire (?P<command>schedule .*?) -->\n```\n(?P<printed>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
SHOWN = [
    pytest.param(match["command"], match["printed"], id=f"{pages.name(path)}: {match['command']}")
    for path in pages.pages()
    for match in PRINTED.finditer(path.read_text())
]


assert SHOWN


@pytest.mark.parametrize(("command", "printed"), SHOWN)
def test_a_schedule_is_what_the_command_prints(laid_out, command, printed, capsys):
    arguments = parser().parse_args([*shlex.split(command), "--results", str(laid_out)])
    capsys.readouterr()
    assert trace.schedule_main(arguments) == 0
    assert capsys.readouterr().out == printed


BLOCKS = questions.blocks_of_commands()
# Methods that somebody has added print lines of their own.
ADDED = set(plugins.find("method")) - set(project.METHODS)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each block of commands prints, one after the other in one folder, with its exit status."""
    folder = tmp_path_factory.mktemp("questions").resolve()
    return {commands: questions.run(commands, folder) for commands in BLOCKS}


def words(text):
    """The names and words of a text without its numbers; in any order, because times decide the order."""
    lines = (line for line in text.splitlines() if not ADDED & {*line.split()[:1]})
    return set(re.findall(r"[A-Za-z][A-Za-z_]+", " ".join(lines)))


@pytest.mark.slow
@pytest.mark.parametrize("commands", BLOCKS)
def test_commands_print_what_is_quoted(printed, commands):
    status, text = printed[commands]
    assert status == 0, text
    assert words(text) == words(update_docs.printed(update_docs.newest("questions"), commands))


def test_a_question_quotes_what_its_commands_print():
    asked = re.split(r"^## ", questions.PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert len(asked) >= 6
    for each in asked:
        title, _, answer = each.partition("\n")
        assert title.endswith("?"), title
        assert answer.count("```sh\n") >= answer.count("<!-- printed: questions -->")
