"""Bad input to a command is answered with one sentence that says what is wrong and where, and exit code 2."""

import io
import sys
from argparse import Namespace
from importlib import import_module

import pytest

from tests.commands import thinwire
from thinwire.base import digests, folders
from thinwire.cli import main as command_line
from thinwire.cli.plugins_and_suites import list_main


@pytest.fixture
def refused(monkeypatch, capsys):
    """Call `thinwire ARGS`, which refuses its input, and return its one sentence."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(command_line, "ignore_lost_output", lambda: None)

    def call(*args, words):
        monkeypatch.setattr(sys, "argv", ["thinwire", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        return sentence(ended.value.code, capsys.readouterr().err, words)

    return call


def sentence(code: int, errors: str, words: tuple[str, ...]) -> str:
    assert code == 2, errors
    lines = [line for line in errors.splitlines() if line.strip()]
    assert len(lines) == 1, errors
    assert lines[0].startswith("thinwire:")
    for word in words:
        assert word in lines[0]
    return lines[0]


def test_every_command_that_is_understood_is_a_function():
    commands = next(a.choices for a in command_line.parser()._actions if a.dest == "command")
    for command in commands:
        module = import_module(f"thinwire.cli.{command_line._MODULE[command]}")
        assert callable(getattr(module, f"{command.replace('-', '_')}_main"))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("nothing", ("nothing", "--help")),
        ("cells nothing", ("no suite 'nothing'", "demo")),
        ("plan --model resnet18 --workers 16 --rate 0", ("--rate 0", "Gbit/s above 0")),
        ("plan --model resnet18 --workers 16 --rate 1 --latency -1", ("--latency -1", "milliseconds")),
        ("plan --model resnet18 --workers 0 --rate 1", ("--workers 0", "above 0")),
        ("plan --model resnet18 --workers 6 --per-node 4 --rate 1", ("6 workers", "nodes of 4")),
        ("plan --model resnet18 --workers 16 --probe nobody", ("'nobody' is no server", "TOKEN@HOST:PORT")),
        ("plan --parameters 0 --workers 16 --rate 1", ("--parameters 0", "above 0")),
        ("plan --parameters 9 --workers 16 --rate 1", ("--parameters", "needs --step-seconds")),
        ("plan --model resnet --workers 2 --rate 1 --accelerator no", ("no accelerator 'no'", "a100_bf16")),
        ("plan --model resnet19 --workers 16 --rate 1", ("no network 'resnet19'", "resnet18")),
        ("run demo no/such/cell", ("demo", "no cell 'no/such/cell'", "digits")),
        ("run demo digits/cnn/ssgd/w4/seed0 --fingerprint 0123", ("config/demo.yaml", "was changed since")),
        (
            "run demo digits/cnn/ssgd/w4/seed0 --transport processes --workers 3 --results {nowhere}",
            ("there are 3 ranks, but the cell has 4 workers on 1 nodes", "srun --nodes=1 --ntasks=4"),
        ),
        ("train demo no/such/block", ("demo", "no block 'no/such/block'", "digits/cnn/w")),
        ("claims --results {nowhere}", ("there is no ", "/nowhere: run the pipeline first")),
        ("check nothing.py", ("nothing.py", "no such file")),
        ("check README.md", ("README.md", "a method is a Python file")),
        ("data nothing", ("no dataset 'nothing'", "digits")),
        ("data digits --from nowhere", ("--from nowhere", "no such folder")),
        ("data digits --results {file}", ("cannot be written", "/file")),
        ("run demo digits/cnn/ssgd/w4/seed0 --results {nowhere}", ("no data set", "`thinwire data digits")),
        ("run demo digits/cnn/ssgd/w4/seed0 --results {file}/x", ("cannot be written", "/file")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_command_refuses_its_input(refused, tmp_path, args, words):
    (tmp_path / "file").write_text("")
    refused(*args.format(nowhere=tmp_path / "nowhere", file=tmp_path / "file").split(), words=words)


def test_report_of_another_suite_than_was_collected(refused, tmp_path):
    (tmp_path / "summary.csv").write_text("suite,dataset\nlaptop,digits\n")
    digests.write_json(tmp_path / "collected.json", {"files": digests.of_files(tmp_path, ["summary.csv"])})
    refused("report", "demo", "--results", tmp_path, words=("has no run of suite demo",))


def test_errors_of_a_suite_come_in_one_line(refused, write_suite):
    path = write_suite({"sed": 1, "methods.top_k": {"options": {"density": 0}}})
    refused("cells", "bad", words=(str(path), "sed:"))
    write_suite({"methods.top_k": {"options": {"density": 0}}})
    refused("run", "bad", "digits/cnn/ssgd/w2/seed0", words=("methods.top_k.options.density", "not 0"))


@pytest.mark.parametrize(
    ("cell", "options", "words"),
    [
        ("no/such/cell", (), ("demo", "no cell 'no/such/cell'", "nearest")),
        ("digits/cnn/ssgd/w8n2/seed0", ("--steps", 0), ("--steps 0", "at least 1")),
        ("digits/cnn/ssgd/w8n2/seed0", ("--workers", 0), ("0 workers", "at least 1")),
        ("digits/cnn/ssgd/w8n2/seed0", ("--nodes", 3), ("8 workers", "evenly over 3 nodes")),
        ("digits/cnn/ssgd/w8n2/seed0", ("--workers", 8192), ("8,192 workers", "at most 4,096")),
        ("digits/cnn/ssgd/w8n2/seed0", ("--workers", 128), ("batch of 64", "128 workers", "batch_per")),
        ("digits/cnn/daso/w8n2/seed0", ("--nodes", 1), ("daso cannot run", "at least 2 nodes")),
        ("digits/lenet/mp2/w8/seed0", (), ("is missing", "`thinwire prepare claims/mp2_digits")),
    ],
)
def test_a_schedule_that_cannot_be_made(refused, laid_out, cell, options, words):
    suite = "claims/mp2_digits" if "mp2" in cell else "demo"
    refused("schedule", suite, cell, *options, "--results", laid_out, words=words)


def test_a_command_refuses_its_input_in_its_own_process():
    done = thinwire("cells", "nothing")
    sentence(done.returncode, done.stderr, ("no suite 'nothing'", "demo"))


def test_a_sign_that_the_locale_does_not_have_is_written_as_its_number():
    """And what follows it is not lost."""
    sink = io.BytesIO()
    stream = command_line._SafeStream(io.TextIOWrapper(sink, encoding="latin-1"), 99)
    stream.write("\N{MINUS SIGN}0.37 points")
    stream.flush()
    assert sink.getvalue() == rb"\u22120.37 points"


def test_list_shows_a_broken_method_and_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(folders.VARIABLE, str(tmp_path))
    monkeypatch.setenv("COLUMNS", "400")
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods/broken.py").write_text('"""Broken."""\n\ndef (\n')
    (tmp_path / "methods/empty.py").write_text('"""Nothing in it."""\n')
    assert list_main(Namespace()) == 1
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert f"broken: {tmp_path}/methods/broken.py, line 3: SyntaxError" in rows["broken"]
    assert f"broken: {tmp_path}/methods/empty.py: it must define a class Method" in rows["empty"]
    for name in ("ssgd", "top_k", "local_sgd", "cnn", "resnet", "digits", "fashion_mnist"):
        assert name in rows
        assert "broken" not in rows[name]
