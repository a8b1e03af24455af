"""Names that mean something to a shell, a path or a regular expression are refused wherever they stand."""

import sys
from argparse import Namespace
from functools import partial

import pytest

from tests.bad_input.suites import message
from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.cli import main as command_line
from thinwire.cli import plugins_and_suites as list_command
from thinwire.config import suite
from thinwire.publish.wandb import fields

ODD = [
    *(f"a{character}b" for character in "`$;&|>'\" \n\t\\*{[(?=,:%#~\0\uff41\u0663"),
    *". .. ~ .hidden -x --help +x _x größe".split(),  # noqa: SIM905
    *("", "a\n", "\na", "x" * 101),
]
PATHS = [
    *"/etc/passwd ../demo claims/../demo a/ /a a//b ./demo claims/.mp2 a/-b".split(),  # noqa: SIM905
    "demo/\n",
]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_an_odd_label_is_refused(name):
    assert "cannot be a label: take at most 100 letters" in message(folders.require_label, name)


@pytest.mark.parametrize("name", [*ODD, *PATHS], ids=ascii)
def test_an_odd_suite_is_refused(name):
    text = message(suite.load, name)
    assert "cannot be the name of a suite: for each part between slashes take" in text
    assert len(text) < 400
    assert text.isprintable()


@pytest.mark.parametrize("name", ["demo", "c++", "a.b-c_d+e", "2024", "claims/mp2", "a/b/c++"])
def test_a_name_of_labels_is_taken(name):
    assert folders.require_suite_name(name) == name


@pytest.mark.parametrize(
    "arguments",
    [
        *("cells {}", "collect {}", "report {}", "track {}", "tuned {}", "train {} digits/cnn/w4/seed0"),
        *("run {} digits/cnn/ssgd/w4/seed0", "prepare {} digits/cnn/wnn/seed0"),
    ],
)
def test_every_command_that_takes_a_suite_refuses(arguments, tmp_path, monkeypatch, capsys):
    given = [argument.format("`touch x`") for argument in arguments.split()]
    monkeypatch.setattr(sys, "argv", ["thinwire", *given, "--results", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "cannot be the name of a suite" in text
    assert list(tmp_path.iterdir()) == []


def test_suites_that_differ_in_case_only_are_refused(write_suite):
    for name in ("demo", "Demo", "other"):
        write_suite({}, name)
    for name in ("demo", "Demo", "DEMO"):
        assert "differ in upper and lower case only" in message(suite.load, name)
    suite.load("other")


def test_a_suite_is_not_called_as_the_trials_of_another(write_suite, tmp_path):
    (tmp_path / "config/more").mkdir(parents=True)
    for name in ("more/finals", "more/again"):
        write_suite({}, name)
        assert f"{name}.yaml: suites of trials have names that end in /again, /finals" in message(
            suite.load, name
        )


@pytest.mark.parametrize("name", ["a b", "a;b", "-x", "a'b", "+", "größe"])
def test_a_plugin_whose_name_is_no_label_is_refused(name, tmp_path):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / f"{name}.py").write_text("")
    text = message(lambda: plugins.find("method", root=tmp_path))
    assert "cannot be a label" in text
    assert text.endswith("rename the file")


def test_an_editors_backup_of_a_plugin_is_not_a_plugin(tmp_path):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "good.py").write_text("")
    (tmp_path / "methods" / ".#good.py").symlink_to("somebody@somewhere.1234")
    assert list(plugins.find("method", root=tmp_path)) == ["good"]


def test_a_folder_with_the_name_of_a_plugins_file_is_refused(tmp_path):
    (tmp_path / "methods" / "a.py").mkdir(parents=True)
    with pytest.raises(UserError, match=r"a.py is no file: rename or remove it"):
        plugins.find("method", root=tmp_path)


def test_no_two_suites_share_a_project_or_a_rule():
    suites = ["a/b", "a-b", "a+b", "a_b", "a.b", "a/b/c", "a-b/c", "a/b-c", "a+", "a++", "a", "a/b+", "a/b-"]
    assert len({folders.flat(name) for name in suites}) == len(suites)
    assert len({fields.project(name) for name in suites}) == len(suites)
    for name in suites:
        assert folders.require_label(folders.flat(name))
    assert folders.flat("claims/mp2_digits") == "claims-mp2_digits"


def test_a_plugins_description_is_not_read_as_markup(tmp_path, monkeypatch, capsys):
    for kind in plugins.CLASS:
        (tmp_path / f"{kind}s").mkdir()
    odd = '"[/red] is no markup"\nimport thinwire\nclass Method(thinwire.Method): pass\n'
    (tmp_path / "methods" / "odd_for_a_test.py").write_text(odd)
    (tmp_path / "methods" / "bad_for_a_test.py").write_text('raise ValueError("[/blue]")\n')
    monkeypatch.setattr(plugins, "find", partial(plugins.find, root=tmp_path))
    monkeypatch.setenv("COLUMNS", "400")
    try:
        assert list_command.list_main(Namespace()) == 1
        assert list_command.show_main(Namespace(method="odd_for_a_test")) == 0
    finally:
        sys.modules.pop("thinwire_methods.odd_for_a_test", None)
    shown = capsys.readouterr().out
    assert shown.count("[/red] is no markup") == 2
    assert "ValueError: [/blue]" in shown
