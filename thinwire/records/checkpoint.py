"""A run's whole state on disk, without pickle: tensors as safetensors, everything else as JSON.

A checkpoint is a folder named after its step. It is written completely or not at all, and it contains the
digests of its tensors. The last two checkpoints are kept. A damaged one is ignored: the run then loses time,
but it is not lost. The state is a tree of dictionaries, lists, tensors, numbers, strings and None. Loading
restores it bit for bit.

Workers have most tensors in common. Equal ones are written once: all ranks exchange the digests of theirs,
and one of those that have a tensor saves it for all.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from thinwire.base import digests
from thinwire.base.errors import MethodError
from thinwire.base.files import aside, publish, writing
from thinwire.records import tensor_file
from thinwire.records.tensor_file import Progress

KEPT = 2
_TENSORS, _TREE = "tensors.safetensors", "tree.json"


class Sharing(NamedTuple):
    """Lets the ranks of a run save what they have in common once; each has its `folder_of_rank`."""

    rank: int
    # Gives the digests of the tensors of all ranks from those of this one; all ranks call it together.
    exchange: Callable[[list[str]], list[list[str]]]

    def saved_elsewhere(self, digests_here: list[str]) -> dict[str, int]:
        """The ranks that save these tensors in its place; all that have one share the work."""
        ranks: dict[str, list[int]] = {}
        for rank, own in enumerate(self.exchange(digests_here)):
            for digest in own:
                ranks.setdefault(digest, []).append(rank)
        savers = {digest: ranks[digest][int(digest, 16) % len(ranks[digest])] for digest in digests_here}
        return {digest: rank for digest, rank in savers.items() if rank != self.rank}


def folder_of_rank(folder: Path, rank: int) -> Path:
    """The folder of a rank's checkpoints, in that of the run's."""
    return folder / f"rank{rank}"


def save(
    folder: Path,
    step: int,
    state: object,
    progress: Progress = lambda: None,
    sharing: Sharing | None = None,
) -> None:
    """Write the checkpoint of `step` under another name, rename it, and delete all but the last two.

    `progress` is called again and again meanwhile. With `sharing`, other ranks save at the same time;
    without, this process has all workers.
    """
    tensors: dict[str, Tensor] = {}
    tree = _pack(state, "", tensors, progress)
    elsewhere: dict[str, int] = {}
    if sharing is not None:
        elsewhere = sharing.saved_elsewhere(list(tensors))
        progress()
    scratch = folder / f".{_name(step)}.{os.getpid()}"
    with writing(folder):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        own = {digest: tensor for digest, tensor in tensors.items() if digest not in elsewhere}
        tensor_file.write(scratch / _TENSORS, own, progress)
    content = {"step": step, "tree": tree, "saved_by_rank": elsewhere}
    digests.write_json(scratch / _TREE, content)
    publish(scratch, folder / _name(step))
    # The run did not continue from checkpoints of later steps: they are damaged, or of other options.
    kept = [path for path in _checkpoints(folder) if path.name <= _name(step)][:KEPT]
    with writing(folder):
        for old in set(_checkpoints(folder)) - set(kept):
            shutil.rmtree(old)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file under another name and rename it when it is complete."""
    with aside(path) as scratch:
        save_file(tensors, scratch)


def latest(folder: Path, warn: Callable[[str], None]) -> Any:
    """Return the newest sound state, on the CPU, or None; `warn` is called for every damaged one."""
    steps = sound(folder, warn)
    return load(folder, max(steps)) if steps else None


def sound(folder: Path, warn: Callable[[str], None], progress: Progress = lambda: None) -> list[int]:
    """The steps of all sound checkpoints; `warn` is called for damaged ones, and an unreadable one raises."""
    steps = []
    for checkpoint in _checkpoints(folder):
        step = int(checkpoint.name)
        try:
            load(folder, step, progress)
            steps.append(step)
        except digests.Damaged as error:
            warn(f"the checkpoint {checkpoint} is damaged and left out: {error}")
    return steps


def load(folder: Path, step: int, progress: Progress = lambda: None) -> Any:
    """Return the state of a checkpoint, on the CPU; `progress` is called again and again meanwhile.

    Raises:
        Damaged: its files are not as they were saved.
        UserError: a file cannot be read.
    """
    checkpoint = folder / _name(step)
    content = digests.read_json(checkpoint / _TREE)
    try:
        if content["step"] != step:
            raise digests.Damaged(f"it was saved after step {content['step']}")
        saver, found = content["saved_by_rank"], dict[str, Tensor]()

        def tensor(digest: str) -> Tensor:
            if digest in found:
                return found[digest].clone()  # it shares no elements with any other
            where = folder_of_rank(folder.parent, saver[digest]) if digest in saver else folder
            path = where / _name(step) / _TENSORS
            return found.setdefault(digest, tensor_file.read(path, digest, progress))

        return _unpack(content["tree"], tensor)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise digests.Damaged(f"{checkpoint} holds no state ({type(error).__name__}: {error})") from None


def _name(step: int) -> str:
    return f"{step:09d}"


def _checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, newest first."""
    return sorted((path for path in folder.glob("[0-9]" * 9) if path.is_dir()), reverse=True)


def restore(target: dict[str, object], saved: dict[str, object], device: torch.device) -> None:
    """Copy a saved tree into `target`, in place: tensors, dictionaries and lists keep their identity."""
    for key in set(target) - set(saved):
        del target[key]
    for key, value in saved.items():
        target[key] = _restored(target.get(key), value, device)


def _restored(here: object, saved: object, device: torch.device) -> object:
    """Return `here` with the content of `saved` if both have the same structure; otherwise `saved`."""
    if isinstance(saved, dict) and isinstance(here, dict):
        restore(here, saved, device)
        return here
    if isinstance(saved, list) and isinstance(here, list):
        kept = here[: len(saved)] + [None] * (len(saved) - len(here))
        here[:] = [_restored(own, value, device) for own, value in zip(kept, saved)]
        return here
    if not (isinstance(saved, Tensor) and isinstance(here, Tensor)):
        return to_device(saved, device)
    if (here.shape, here.dtype) != (saved.shape, saved.dtype):
        return saved.to(device)
    here.data.copy_(saved)
    return here


def require_separate(memory: dict[str, object], weights: list[Tensor]) -> None:
    """Check that tensors of `memory` share no elements, because a checkpoint does not say which do.

    Raises:
        MethodError: two tensors share elements; the message names them.
    """
    owners = {weight.data_ptr(): "a weight of the model" for weight in weights if weight.numel()}
    for path, tensor in _tensors(memory, "memory"):
        if tensor.numel():
            other = owners.setdefault(tensor.data_ptr(), path)
            if other != path:
                raise MethodError(f"{path} shares its elements with {other}: keep a clone in `memory`")


def _tensors(tree: object, path: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(tree, Tensor):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _tensors(value, f"{path}[{key!r}]")
    elif isinstance(tree, list | tuple):
        for number, value in enumerate(tree):
            yield from _tensors(value, f"{path}[{number}]")


def to_device(tree: Any, device: torch.device) -> Any:
    if isinstance(tree, Tensor):
        return tree.to(device)
    if isinstance(tree, dict):
        return {key: to_device(value, device) for key, value in tree.items()}
    if isinstance(tree, list):
        return [to_device(value, device) for value in tree]
    return tree


def _pack(value: object, path: str, tensors: dict[str, Tensor], progress: Progress) -> object:
    """Move the tensors of a tree into `tensors`, by digest; return the rest, which JSON can represent."""
    if isinstance(value, Tensor):
        here = value.detach().cpu().contiguous()
        digest = tensor_file.digest_of(here, progress)
        tensors.setdefault(digest, here)
        return {"tensor": digest}
    if isinstance(value, dict):
        if wrong := [key for key in value if not isinstance(key, str | int)]:
            raise MethodError(f"{path} has the key {wrong[0]!r}, which cannot be saved: use text or numbers")
        # As pairs, because the keys of an optimizer's state are integers and those of JSON are strings.
        return {"dict": [[k, _pack(v, f"{path}/{k}", tensors, progress)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_pack(v, f"{path}/{i}", tensors, progress) for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    raise MethodError(
        f"{path} is a {type(value).__name__}, which cannot be saved: keep dictionaries, lists, tensors "
        "and numbers in `memory` and in flight"
    )


def _unpack(tree: object, tensor: Callable[[str], Tensor]) -> object:
    if not isinstance(tree, dict):
        return tree
    ((kind, value),) = tree.items()
    if kind == "tensor":
        return tensor(value)
    if kind == "dict":
        return {key: _unpack(entry, tensor) for key, entry in value}
    if kind == "list":
        return [_unpack(entry, tensor) for entry in value]
    return float.fromhex(value)
