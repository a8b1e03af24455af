"""Checkpoints: bit for bit, whole or not at all; and a run resumes only from its own."""

import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from thinwire.base import digests
from thinwire.base.errors import MethodError, UserError
from thinwire.records import checkpoint
from thinwire.train.run_setup import RunCheckpoints
from thinwire.transport.inprocess import InProcess

STATE = {
    "tensor": torch.randn(3, 4, dtype=torch.float64),
    "half": torch.randn(5).to(torch.bfloat16),
    "empty": torch.zeros(0, 3, dtype=torch.int32),
    "scalar": torch.tensor(7),
    "nested": {0: [torch.ones(2), None, True, "text"], 1: {"x": 0.1 + 0.2}},
    "alike": {1: torch.zeros(1), "1": torch.ones(1), "a/b": torch.ones(2), "a": {"b": torch.zeros(2)}},
    "numbers": [1, -0.0, 1e-310, math.inf, math.nan, 2**62],
}


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)


def test_a_state_comes_back_bit_for_bit(tmp_path):
    checkpoint.save(tmp_path, 3, STATE)
    assert same(checkpoint.latest(tmp_path, pytest.fail), STATE)


def test_the_newest_is_taken_and_two_are_kept(tmp_path):
    for step in (9, 10, 100):
        checkpoint.save(tmp_path, step, {"step": step})
    assert checkpoint.latest(tmp_path, pytest.fail) == {"step": 100}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000010", "000000100"]
    # What an interrupted write has left is no checkpoint.
    (tmp_path / ".000000900.123").mkdir()
    assert checkpoint.latest(tmp_path, pytest.fail) == {"step": 100}
    assert checkpoint.latest(tmp_path / "nothing", pytest.fail) is None


TENSORS, TREE = "tensors.safetensors", "tree.json"


def overwrite(path, change):
    path.write_bytes(change(path.read_bytes()))


def rewrite(checkpoint, change):
    """Change the content of the tree and correct its digest: an invalid tree, but not a damaged one."""
    content = digests.read_json(checkpoint / TREE)
    change(content)
    digests.write_json(checkpoint / TREE, content)


def with_tree(tree):
    return lambda checkpoint: rewrite(checkpoint, lambda content: content.update(tree=tree))


DAMAGE = {
    "tree with another digit": lambda c: overwrite(c / TREE, lambda b: b.replace(b"1234", b"1235")),
    "tree without a key": lambda c: rewrite(c, lambda content: content.pop("tree")),
    "tree of an unknown kind": with_tree({"set": []}),
    "tree with two kinds": with_tree({"list": [], "dict": []}),
    "tree with a tensor that is not there": with_tree({"tensor": "99"}),
    "ranks that are no table": lambda c: rewrite(c, lambda content: content.update(saved_by_rank=7)),
    "tensors cut": lambda c: overwrite(c / TENSORS, lambda b: b[:-3]),
    "tensors with another bit": lambda c: overwrite(c / TENSORS, lambda b: b[:-1] + bytes([b[-1] ^ 1])),
    "tensors missing": lambda c: (c / TENSORS).unlink(),
    "tensors of another step": lambda c: shutil.copy(c.with_name("000000001") / TENSORS, c / TENSORS),
    "another step's": lambda c: (shutil.rmtree(c), shutil.copytree(c.with_name("000000001"), c)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(tmp_path, damage):
    for step in (1, 2):
        state = {"step": step, "number": 1234, "word": "text", "t": torch.full((4,), float(step))}
        checkpoint.save(tmp_path, step, state)
    DAMAGE[damage](tmp_path / "000000002")
    warnings = []
    assert checkpoint.latest(tmp_path, warnings.append)["step"] == 1
    (warning,) = warnings
    assert "000000002 is damaged and left out" in warning
    assert "\n" not in warning


def test_an_unreadable_checkpoint_is_not_treated_as_damaged(tmp_path):
    """Skipping it would discard what was trained."""
    checkpoint.save(tmp_path, 1, {"step": 1})
    tree = tmp_path / "000000001" / TREE
    tree.unlink()
    tree.symlink_to(tree)
    with pytest.raises(UserError, match=r"tree\.json cannot be read \(.*\): make it readable or delete it"):
        checkpoint.latest(tmp_path, pytest.fail)


@pytest.mark.parametrize("why", ["damaged", "of other options"])
def test_a_checkpoint_that_was_not_used_does_not_displace_new_ones(tmp_path, why):
    for step in (400, 500):
        checkpoint.save(tmp_path, step, {"step": step})
        if why == "damaged":
            (tmp_path / f"{step:09d}" / TREE).write_text("")
    for step in (10, 20, 30):
        checkpoint.save(tmp_path, step, {"step": step})
    assert checkpoint.sound(tmp_path, pytest.fail) == [30, 20]


@pytest.fixture
def ranks(tmp_path):
    """Saves the states of several ranks together, each in its folder; gives the folders."""

    def save(step, states, progress=lambda: None):
        barrier, digests_of = Barrier(len(states)), {}

        def save_one(rank):
            def exchange(own):
                digests_of[rank] = own
                barrier.wait()
                return [digests_of[each] for each in range(len(states))]

            folder = checkpoint.folder_of_rank(tmp_path, rank)
            checkpoint.save(folder, step, states[rank], progress, checkpoint.Sharing(rank, exchange))
            return folder

        with ThreadPoolExecutor(len(states)) as pool:
            return list(pool.map(save_one, range(len(states))))

    return save


def states_of(ranks, step=1):
    """Two thirds of the numbers are equal in all ranks."""
    shared = torch.arange(30_000.0) + step
    return [
        {"weights": shared.clone(), "momentum": shared.clone(), "own": torch.full((15_000,), rank + 0.5)}
        for rank in range(ranks)
    ]


def test_what_ranks_have_in_common_is_saved_once_and_each_gets_the_same_bits(ranks):
    states = states_of(3)
    folders = ranks(1, states)
    for folder, state in zip(folders, states):
        back = checkpoint.latest(folder, pytest.fail)
        assert same(back, state)
        # Equal tensors are still tensors of their own.
        back["weights"].zero_()
        assert float(back["momentum"][-1]) == 30_000
    written = sum(path.stat().st_size for path in folders[0].parent.rglob(TENSORS))
    assert written == pytest.approx(4 * (30_000 + 3 * 15_000), rel=0.01)


def test_a_shared_tensor_that_is_damaged_costs_all_of_its_ranks_that_checkpoint(ranks):
    ranks(1, states_of(2, step=1))
    folders = ranks(2, states_of(2, step=2))
    written = (folder / "000000002" / TENSORS for folder in folders)
    largest = max(written, key=lambda path: path.stat().st_size)
    overwrite(largest, lambda content: content[:50_000] + bytes([content[50_000] ^ 1]) + content[50_001:])
    warnings = []
    assert [checkpoint.sound(folder, warnings.append) for folder in folders] == [[1], [1]]
    assert all("000000002 is damaged and left out" in warning for warning in warnings)


def test_a_slow_disk_shows_progress_and_one_that_hangs_does_not(tmp_path, monkeypatch):
    """Every piece that is hashed, written or verified is a sign of life."""
    signs = []
    state = {"large": torch.zeros(100_000, dtype=torch.uint8)}
    monkeypatch.setattr(checkpoint.tensor_file, "_PIECE_BYTES", 10_000)
    checkpoint.save(tmp_path, 1, state, lambda: signs.append("saves"))
    assert checkpoint.sound(tmp_path, pytest.fail, lambda: signs.append("reads")) == [1]
    assert (signs.count("saves"), signs.count("reads")) == (20, 10)

    monkeypatch.setattr(checkpoint.tensor_file.os, "fdatasync", Mock(side_effect=TimeoutError))
    signs.clear()
    with pytest.raises(UserError):
        checkpoint.save(tmp_path, 2, state, lambda: signs.append("saves"))
    assert len(signs) == 10, "it was hashed, and no piece has reached the disk"


def test_a_full_disk_leaves_the_checkpoint_before_it(tmp_path, monkeypatch):
    checkpoint.save(tmp_path, 1, {"step": 1})
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(checkpoint.tensor_file, "write", full)
    with pytest.raises(UserError, match="No space left on device"):
        checkpoint.save(tmp_path, 2, {"step": 2, "tensor": torch.ones(1)})
    assert checkpoint.latest(tmp_path, pytest.fail) == {"step": 1}


def test_what_cannot_be_saved_is_refused_by_name(tmp_path):
    with pytest.raises(MethodError, match=r"/memory has the key \(1, 2\)"):
        checkpoint.save(tmp_path, 1, {"memory": {(1, 2): torch.zeros(1)}})
    with pytest.raises(MethodError, match="/memory/queue is a set"):
        checkpoint.save(tmp_path, 1, {"memory": {"queue": {1, 2}}})


def test_restoring_keeps_tensors_lists_and_dictionaries_in_their_place_and_takes_a_new_dtype():
    one, many, inner = torch.zeros(2), [torch.zeros(1), torch.zeros(1)], {"x": 1}
    here = {"one": one, "many": many, "inner": inner, "other": torch.zeros(2), "old": 5}
    saved = {
        "one": torch.ones(2),
        "many": [torch.ones(1)] * 3,
        "inner": {"x": 2, "y": torch.ones(1)},
        "other": torch.full((2,), 1e-300, dtype=torch.float64),
        "new": [1],
    }
    checkpoint.restore(here, saved, torch.device("cpu"))
    assert (here["one"] is one, here["many"] is many, here["inner"] is inner) == (True, True, True)
    assert one.tolist() == [1, 1]
    assert [float(t) for t in many] == [1, 1, 1]
    assert (inner["x"], float(inner["y"])) == (2, 1)
    assert here["other"].dtype == torch.float64
    assert here.keys() == saved.keys()
    assert here["new"] == [1]


@pytest.mark.parametrize("where", ["itself", "the model"])
def test_memory_that_shares_elements_is_refused_by_name(where):
    weight = torch.zeros(3)
    memory = {"now": torch.zeros(3), "list": [torch.zeros(2)]}
    checkpoint.require_separate(memory, [weight])
    memory["before"] = memory["now"] if where == "itself" else weight.data
    with pytest.raises(MethodError, match=r"memory\['before'\] shares its elements"):
        checkpoint.require_separate(memory, [weight])


IDENTITY = {"fingerprint": "0123", "data": "89ab"}


class Trainer:
    """Keeps the state from which it should resume."""

    transport = InProcess(2)
    loaded = None
    met = False
    step = 3
    status = SimpleNamespace(elapsed_seconds=1.0)

    def load(self, state):
        self.loaded = state

    def state(self):
        return {"step": self.step}

    def meet(self):
        self.met = True


@pytest.fixture
def folder(tmp_path):
    for step in (1, 2):
        checkpoint.save(tmp_path, step, {"identity": IDENTITY, "interruptions": 4, "trainer": {"step": step}})
    return tmp_path


def resumed(folder):
    """What the trainer was given, and the lines of the log."""
    log = []
    checkpoints = RunCheckpoints(folder, 60, IDENTITY, log.append)
    trainer = Trainer()
    assert checkpoints.resume(trainer) == (trainer.loaded is not None)
    assert checkpoints.interruptions == (5 if trainer.loaded else 0)
    return trainer.loaded, "\n".join(log)


def test_it_resumes_from_the_newest_and_says_that_it_waits_for_the_disk(folder):
    assert resumed(folder) == ({"step": 2}, "")
    done = []
    checkpoints = RunCheckpoints(folder, 60, IDENTITY, print, done.append)
    checkpoints.resume(Trainer())
    trainer = Trainer()
    checkpoints.save(trainer)
    assert done == ["reads its checkpoints"] * 2 + ["saves a checkpoint", "computes"]
    assert trainer.met, "a rank that has saved waits for those that have not"


@pytest.mark.parametrize("state", [None, {}, *({"identity": IDENTITY | {key: "cdef"}} for key in IDENTITY)])
def test_a_checkpoint_of_something_else_is_not_used(folder, state):
    checkpoint.save(folder, 3, state)
    why = "the checkpoint was made with other options, data or code: training from the beginning"
    assert resumed(folder) == (None, why)
