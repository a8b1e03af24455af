"""What a person reads about runs, at work or ended, and commands that can be pasted into a shell."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import sound
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.folders import suggested_command
from thinwire.config.expand import cells
from thinwire.config.trials import finalists_path, only_finalists
from thinwire.config.yaml_file import Module
from thinwire.pipeline.run_display import Progress, duration, running
from thinwire.records import record
from thinwire.train import result_files
from thinwire.train.result_files import ProgressFile, partial_folder, read_progress, record_folder

FIRST, SECOND, *_ = cells("demo")


def publish(results, cell, status, reason=None, **provenance):
    sound.publish(results, cell, epochs=0, status=status, reason=reason, provenance=provenance, result=None)


def work(results, cell, step, steps, score=None):
    folder = partial_folder(results, cell)
    folder.mkdir(parents=True, exist_ok=True)
    ProgressFile(folder).update(step, steps, 10, score)


def test_a_record_of_a_run_that_was_trained_before_says_so(tmp_path):
    now = datetime.now(UTC)
    progress = Progress([FIRST, SECOND], tmp_path)
    for cell, ended in ((FIRST, now - timedelta(seconds=2)), (SECOND, now)):
        publish(tmp_path, cell, "skipped", "no nodes", ended=ended.isoformat(timespec="seconds"))
    assert progress.finished() == [
        f"demo/{FIRST.path}: trained before, skipped: no nodes",
        f"demo/{SECOND.path}: skipped: no nodes",
    ]


def test_a_run_that_is_at_work_has_a_line(tmp_path):
    work(tmp_path, FIRST, 14, 100, score="accuracy 51.50 %")
    progress = Progress([FIRST, SECOND], tmp_path)
    assert running(progress.at_work()) == [f"demo/{FIRST.path}: epoch 2 of 10, accuracy 51.50 %"]
    assert progress.finished() == []
    # A published record has no progress file.
    publish(tmp_path, FIRST, "skipped", "no")
    assert record.PROGRESS not in [path.name for path in record_folder(tmp_path, FIRST).iterdir()]


def test_a_write_that_fails_is_no_error_and_the_next_one_may_succeed(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(result_files, "time", SimpleNamespace(monotonic=lambda: now[0]))
    file = ProgressFile(tmp_path / "later")
    file.update(1, 100, 10, None)
    (tmp_path / "later").mkdir()
    now[0] = 1.0
    file.update(2, 100, 10, None)
    assert read_progress(tmp_path / "later").step == 2


def test_on_a_slow_file_system_the_others_seldom_wait_for_a_write(tmp_path, monkeypatch):
    now, writes = [0.0], []
    monkeypatch.setattr(result_files, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def write_text(path, content):
        writes.append(now[0])
        now[0] += 0.1

    monkeypatch.setattr(Path, "write_text", write_text)
    file = ProgressFile(tmp_path)
    for step in range(1, 60):
        file.update(step, 100, 10, None)
        now[0] += 1.0
    assert len(writes) == 3


def test_what_is_left_is_as_slow_as_what_is_done(tmp_path):
    now = [0.0]
    progress = Progress([FIRST, SECOND], tmp_path, lambda: now[0])
    assert progress.summary(progress.at_work()) == "0 of 2 runs"
    work(tmp_path, FIRST, 50, 100)
    now[0] = 100.0
    assert progress.summary(progress.at_work()) == "0 of 2 runs, 25%, about 5 min left"


def test_each_run_that_ends_is_told_once(tmp_path):
    publish(tmp_path, FIRST, "skipped", "of an earlier call")
    progress = Progress([FIRST, SECOND], tmp_path)
    assert progress.finished() == []
    publish(tmp_path, FIRST, "failed", "it needs two nodes")
    log = tmp_path / "logs/train/demo" / f"{FIRST.path}.txt"
    assert progress.finished() == [f"demo/{FIRST.path}: failed: it needs two nodes; log: {log}"]
    assert progress.finished() == []
    publish(tmp_path, SECOND, "skipped", "no")
    progress.finished()
    assert progress.summary(progress.at_work()) == "2 of 2 runs"


def test_finals_are_waited_for_when_it_is_known_which_trials_are_the_best(tmp_path):
    trials, finals = (
        cells(name)[0] for name in ("tuning/claims/daso_digits", "tuning/claims/daso_digits/finals")
    )
    other = next(cell for cell in cells(finals.suite) if cell.method.label != finals.method.label)
    file = finalists_path(tmp_path, "claims/daso_digits")
    file.parent.mkdir(parents=True)
    digests.write_json(file, {finals.place: [other.method.label, "of an earlier tuning"]})
    progress = Progress([trials], tmp_path, finals=[finals, other])
    publish(tmp_path, trials, "skipped", "no")
    assert len(progress.finished()) == 1
    assert progress.summary(progress.at_work()) == "1 of 1 runs"
    digests.write_json(file, {"digits/cnn/w4": []})
    with pytest.raises(UserError, match=rf"were chosen when its tuning had no {finals.place}"):
        only_finalists([finals], tmp_path)
    file.write_text("{")
    with pytest.raises(UserError, match=r"is damaged .*`thinwire tuned claims/daso_digits` writes it again"):
        only_finalists([finals], tmp_path)
    digests.write_json(file, {finals.place: [finals.method.label]})
    assert progress.finished() == []
    assert progress.summary(progress.at_work()).startswith("1 of 2 runs")
    publish(tmp_path, finals, "skipped", "no")
    assert progress.finished() == [f"{finals.suite}/{finals.path}: skipped: no"]


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"epoch": 1, "more": 2}'])
def test_half_a_progress_file_is_none(tmp_path, content):
    (tmp_path / record.PROGRESS).write_text(content)
    assert read_progress(tmp_path) is None


def test_the_time_left_is_that_of_this_attempt():
    resumed = result_files.RunProgress(9, 10, 80, 100, 10, 5.0, None)
    assert resumed.seconds_left == 10.0
    assert resumed._replace(steps_here=0).seconds_left is None


DURATIONS = [(0, "0 s"), (59, "59 s"), (59.7, "1 min"), (90, "2 min"), (3580, "1.0 h"), (5400, "1.5 h")]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_durations(seconds, text):
    assert duration(seconds) == text


RUN = f"thinwire run demo {FIRST.path}"


def test_the_folder_of_results_is_repeated_if_it_is_not_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for default in (Path("results"), tmp_path / "results"):
        assert suggested_command("list", results=default) == "`thinwire list`"
    for other in (Path("my results"), tmp_path / "my results"):
        assert suggested_command("list", results=other) == "`thinwire list --results 'my results'`"
    assert suggested_command("list", results=Path("/a")) == "`thinwire list --results /a`"


def test_a_command_makes_what_its_message_is_about(tmp_path):
    more = f"--results {tmp_path}"
    assert result_files.run_command(FIRST, tmp_path) == f"`{RUN} {more}`"
    deviating = replace(FIRST, transport="processes", deviates=True)
    assert result_files.run_command(deviating, tmp_path) == f"`{RUN} --transport processes {more}`"
    measured = replace(FIRST, transport="processes")
    assert result_files.advice(measured, tmp_path).endswith(f"`thinwire train demo {FIRST.block} {more}`")
    assert result_files.data_command(FIRST, tmp_path) == f"`thinwire data digits {more}`"
    small = replace(FIRST, data=Module("small", "digits", {"size": 24}))
    expected = f"`thinwire data digits --label small --options '{{\"size\": 24}}' {more}`"
    assert result_files.data_command(small, tmp_path) == expected
