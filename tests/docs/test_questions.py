"""The commands of docs/questions.md succeed, and print what the page quotes, with numbers of their own."""

import re

import pytest

from benchmarks import questions_page, update_docs
from tests import project
from thinwire import plugins

pytestmark = pytest.mark.slow

BLOCKS = questions_page.blocks_of_commands()
# Methods that somebody has added print lines of their own.
ADDED = set(plugins.find("method")) - set(project.METHODS)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each block of commands prints, one after the other in one folder, with its exit status."""
    folder = tmp_path_factory.mktemp("questions").resolve()
    return {commands: questions_page.run(shortened(commands), folder) for commands in BLOCKS}


def shortened(commands):
    """The commands, with the first 16 steps in place of a whole simulated run: the names are the same."""
    return commands.replace("--profile a100_tf32 --results", "--profile a100_tf32 --steps 16 --results")


def words(text):
    """The names and words of a text without its numbers; in any order, because times decide the order."""
    lines = (line for line in text.splitlines() if not ADDED & {*line.split()[:1]})
    return set(re.findall(r"[A-Za-z][A-Za-z_]+", " ".join(lines)))


@pytest.mark.parametrize("commands", BLOCKS)
def test_commands_print_what_is_quoted(printed, commands):
    status, text = printed[commands]
    assert status == 0, text
    assert words(text) == words(update_docs.printed(update_docs.newest("questions"), commands))


def test_a_question_quotes_what_its_commands_print():
    questions = re.split(r"^## ", questions_page.PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert len(questions) >= 6
    for question in questions:
        title, _, answer = question.partition("\n")
        assert title.endswith("?"), title
        assert answer.count("```sh\n") >= answer.count("<!-- printed, in the newest record of questions -->")
