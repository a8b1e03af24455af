"""Commands, paths and names that the documentation mentions exist."""

import re
import shlex
from importlib import import_module
from itertools import takewhile

from tests.docs import pages
from thinwire import plugins
from thinwire.base.folders import DEFAULT_RESULTS
from thinwire.cli.arguments import parser
from thinwire.config import expand, suite
from thinwire.config.configuration import Configuration
from thinwire.pipeline import grid, snakefile
from thinwire.plugins import ROOT
from thinwire.train.result_files import data_command

PAGES, PARSER = pages.pages(), parser()
# A path in the text begins with one of these.
FOLDERS = {name.split("/")[0] for name in pages.tracked() if "/" in name} - {"results"}


def command_lines(text):
    """The words of each command in the shell blocks and in inline code of a page."""
    lines = [
        line
        for language, content in pages.blocks(text)
        if language == "sh"
        for line in content.replace("\\\n", " ").splitlines()
    ]
    lines += re.findall(r"`([^`\n]+)`", pages.prose(text))
    for line in lines:
        try:
            words = shlex.split(line.replace("\\|", "|"), comments=True)
        except ValueError:  # inline code that is no command
            continue
        # What the shell does with the output is no part of the command.
        yield list(takewhile(lambda word: word not in ("|", ">", "2>"), words))


def after(words, program):
    """What follows the program in a command, or None where it is not in it."""
    for number, word in enumerate(words[:-1]):
        if word == program or word.endswith(f"bin/{program}"):
            return words[number + 1 :]
    return None


COMMANDS = [words for path in PAGES for words in command_lines(path.read_text())]


def test_commands_of_thinwire_are_accepted_and_name_what_is_there():
    for words in COMMANDS:
        arguments = after(words, "thinwire")
        if arguments is None or not arguments[0].islower():
            continue
        if arguments[0].startswith("--"):  # an option of every command, before its name
            assert arguments[0] in PARSER._option_string_actions, words
            continue
        command = PARSER._subparsers._group_actions[0].choices[arguments[0]]
        if arguments[1:2] == ["--options"] or any(word.isupper() or word == "..." for word in arguments):
            continue  # a part of a command, or one with placeholders
        required = command._get_positional_actions() or any(action.required for action in command._actions)
        if len(arguments) == 1 and required:
            continue  # the name of a command in a sentence
        arguments = PARSER.parse_args(arguments)
        for name in getattr(arguments, "suites", [getattr(arguments, "suite", "demo")]):
            suite.load(name)
        if hasattr(arguments, "cell"):
            assert arguments.cell in [cell.path for cell in expand.cells(arguments.suite)], words
        for kind in ("method", "dataset"):
            if hasattr(arguments, kind):
                plugins.get(kind, getattr(arguments, kind))


def test_the_data_of_the_track_are_laid_out_as_its_suite_asks():
    asked = data_command(expand.cells("tracks/v1")[0], DEFAULT_RESULTS).strip("`")
    assert asked in (ROOT / "docs/submit.md").read_text().splitlines()


def test_targets_of_make_are_there():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in COMMANDS:
        if words[:1] == ["make"] and len(words) > 1:
            assert words[1] in targets, words


def test_what_snakemake_is_asked_for_can_be_planned():
    asked = set()
    for words in COMMANDS:
        arguments = after(words, "snakemake") or []
        given = dict(word.split("=", 1) for word in arguments if re.match(r"[a-z]+=", word))
        assert given.keys() <= Configuration.model_fields.keys(), words
        if given and "data" not in given and all(value == value.lower() for value in given.values()):
            asked.add(tuple(given.items()))
    for given in asked:
        choice = snakefile.chosen({key: int(value) if value.isdigit() else value for key, value in given})
        assert grid.read(choice.suites, with_options=False, subset=choice.subset).blocks, given


def test_paths_are_there():
    for path in PAGES:
        for word in re.findall(r"`([^`\s]+)`", pages.prose(path.read_text())):
            if word.split("/")[0] in FOLDERS and "/" in word and not re.search(r"[A-Z]{4}|my_", word):
                suite = ROOT / f"config/{word}.yaml"  # such as `paper/time`
                assert suite.is_file() or list(ROOT.glob(word.rstrip("/"))), f"{pages.name(path)}: {word}"
        for word in re.findall(r"python (\S+\.py)", path.read_text()):
            assert (ROOT / word).is_file(), word


def test_names_of_the_code_are_there():
    for path in PAGES:
        for word in re.findall(r"`(thinwire(?:\.\w+)+)`", path.read_text()):
            module, _, last = word.rpartition(".")
            try:
                import_module(word)
            except ModuleNotFoundError:
                assert hasattr(import_module(module), last), word
