"""Sub-tensors, called slices: the parts in which a round's sum is sent, and their order."""

from collections.abc import Iterator, Mapping

from torch import Tensor

from thinwire import Param, Pending, Run

from .options import Options


def slices(params: list[Param], config: Options) -> Iterator[tuple[Param, int, int]]:
    """Slices of at most `slice` entries, in their order, and in a tensor its beginning first.

    The order is by priority, the input side first; or as gradients become complete, the output side first.
    Each slice is a parameter with the first entry and the one after the last, in the flat tensor.
    """
    for param in params if config.order == "priority" else reversed(params):
        for start in range(0, param.tensor.numel(), config.slice):
            yield param, start, min(start + config.slice, param.tensor.numel())


def part_of(tensors: list[Tensor], part: Mapping[str, int]) -> Tensor:
    """A flat view of a slice in a list of tensors, one for each parameter."""
    return tensors[part["param"]].view(-1)[part["start"] : part["end"]]


def send(
    run: Run, tensors: list[Tensor], config: Options
) -> Iterator[tuple[dict[str, int], Pending[list[Tensor]]]]:
    """Start the mean of the tensors slice by slice, with no more than `credit` entries on their way.

    Yields each slice, for `part_of`, with its pending mean. A slice beyond the credit begins when earlier
    ones have ended. The worker waits for that, or the transport does while the worker goes on.
    """
    on_their_way: list[tuple[Pending[list[Tensor]], int]] = []
    for param, start, end in slices(run.params, config):
        first = []
        while on_their_way and sum(size for _, size in on_their_way) + end - start > config.credit:
            first.append(on_their_way.pop(0)[0])
        part = {"param": param.index, "start": start, "end": end}
        own = part_of(tensors, part).clone()
        if config.release == "background":
            pending = run.world.mean([own], after=first)
        else:
            for earlier in first:
                earlier.wait()
            pending = run.world.mean([own])
        on_their_way.append((pending, end - start))
        yield part, pending
