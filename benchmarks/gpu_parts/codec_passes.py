"""What codecs cost: in memory passes of one large tensor, and in operations for each tensor of a network.

A memory pass is the time of copying the same tensor. A codec that works tensor by tensor starts its kernels
for each of them, and most tensors of a network are small: there, operations are what takes time.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gpu_parts.dispatch_counter import DispatchCounter
from gpu_parts.part import Found, Place, first_line
from thinwire import plugins
from thinwire.base.options import resolve
from thinwire.codecs import blocks, chunks, dct, kernels, lossy, precision, select, sparse

DENSITY, SAMPLED_DENSITY = 0.01, 0.001
CHUNK, OF_A_CHUNK = 64, 32
BLOCK = 512
# What draws as many random numbers on the CPU as a tensor has entries takes so long; once is enough.
SLOW_SECONDS = 0.2


class Sizes(NamedTuple):
    """Of what is coded."""

    matrices: tuple[tuple[int, int], ...]
    network: dict[str, Any]  # options of the model whose tensors are coded
    repetitions: int


FULL = Sizes(((1000, 1000), (2500, 4000), (5000, 5000)), {"depth": 18}, 9)
SMALL = Sizes(((256, 512),), {"depth": 8}, 1)


class Codec(NamedTuple):
    """How tensors become something that is sent, and how that becomes tensors again."""

    encode: Callable[[list[Tensor]], Any]
    decode: Callable[[Any, list[Tensor]], object] | None = None  # None: nothing is sent yet


def codecs(generator: torch.Generator) -> dict[str, Codec]:
    """All selections and quantisers of thinwire/codecs, each name beginning with its module's."""
    made = {f"select.{name}": Codec(partial(_chosen, name, generator)) for name in select.SELECT}
    for encoding in ("int32", "bitmap", "run_length"):
        made[f"sparse.{encoding}"] = Codec(
            lambda tensors, e=encoding: sparse.take(tensors, _chosen("exact", generator, tensors), e),
            lambda sent, tensors, e=encoding: sparse.mean([sent], tensors, e),
        )
    made["kernels"] = Codec(
        lambda tensors: [kernels.take(t, max(1, len(t) // 8), "l2") for t in tensors],
        lambda sent, tensors: [kernels.give(each, t) for each, t in zip(sent, tensors)],
    )
    for name, of, width in (
        ("chunks", chunks, chunks.FULL),
        ("chunks.2_bits", chunks, 2),
        ("dct", dct, chunks.FULL),
    ):
        made[name] = Codec(partial(_take_chunks, of, width), partial(_mean_of_chunks, width))
    made |= {
        f"blocks.{name}": Codec(partial(_encode, codec), partial(_decode, codec))
        for name, codec in {
            "Rounded": blocks.Rounded(8, BLOCK),
            "Signs": blocks.Signs(),
            "RandomLevels": blocks.RandomLevels(8, BLOCK, "max", "uniform", generator),
        }.items()
    }
    for kind in ("bfloat16", "float16"):
        made[f"precision.{kind}"] = Codec(
            lambda tensors, k=kind: precision.cast(tensors, k),
            lambda sent, tensors: [row.float() for row in sent],
        )
    made["precision.2_bits"] = Codec(
        lambda tensors: [precision.pack(precision.quantise(t, t.abs().mean())) for t in tensors],
        lambda sent, tensors: [precision.unpack(row, t.numel()) for row, t in zip(sent, tensors)],
    )
    return made


def part(place: Place, found: Found) -> None:
    """Time each codec on one tensor, then count its operations on the tensors of a network."""
    sizes = SMALL if place.small else FULL
    generator = torch.Generator().manual_seed(0)
    all_codecs = codecs(generator)
    network = _tensors(sizes, generator, place.device)
    for name, codec in all_codecs.items():
        _add(found, name, lambda: {"operations_a_tensor": _operations(codec, network) / len(network)})  # noqa: B023
    for rows, columns in sizes.matrices:
        tensor = torch.randn(rows, columns, generator=generator).to(place.device)
        other, numel = torch.empty_like(tensor), tensor.numel()
        size = f"{numel / 1e6:.2g} M"
        copying = _seconds(place, sizes, lambda: other.copy_(tensor))  # noqa: B023
        topk = _seconds(place, sizes, lambda: tensor.view(-1).abs().topk(select.count(DENSITY, numel)))  # noqa: B023
        found.figures[f"copy and topk, {size}"] = {"copy_ms": 1e3 * copying, "topk_passes": topk / copying}
        for name, codec in all_codecs.items():
            _add(found, name, partial(_passes, place, sizes, codec, tensor, copying))


def _add(found: Found, name: str, measure: Callable[[], dict[str, float]]) -> None:
    """Add to the figures of a codec; what it raises is broken."""
    try:
        found.figures.setdefault(name, {}).update(measure())
    except Exception as error:
        found.broken.append(f"{name}: {first_line(error)}")


def _passes(place: Place, sizes: Sizes, codec: Codec, tensor: Tensor, copying: float) -> dict[str, float]:
    """Of encoding and decoding a tensor, whose copying takes so many seconds."""
    size = f"{tensor.numel() / 1e6:.2g} M"
    times = _times(place, sizes, codec, tensor)
    return {f"{what}_passes, {size}": seconds / copying for what, seconds in times.items()}


def _times(place: Place, sizes: Sizes, codec: Codec, tensor: Tensor) -> dict[str, float]:
    """Seconds of encoding and decoding. What is coded is a copy, because some codecs erase what they send."""
    copy = [tensor.clone()]
    sent = codec.encode(copy)
    times = {"encode": _seconds(place, sizes, lambda: codec.encode(copy))}
    if (decode := codec.decode) is not None:
        times["decode"] = _seconds(place, sizes, lambda: decode(sent, copy))
    return times


def _seconds(place: Place, sizes: Sizes, action: Callable[[], object]) -> float:
    warm_up = place.seconds(action)
    repetitions = sizes.repetitions if warm_up < SLOW_SECONDS else 1
    return median(place.seconds(action) for _ in range(repetitions))


def _operations(codec: Codec, tensors: list[Tensor]) -> int:
    """Of encoding all tensors and decoding what one worker has sent."""
    copies = [tensor.clone() for tensor in tensors]
    with DispatchCounter() as counter:
        sent = codec.encode(copies)
        if codec.decode is not None:
            codec.decode(sent, copies)
    return counter.operations


def _tensors(sizes: Sizes, generator: torch.Generator, device: torch.device) -> list[Tensor]:
    """Noise in the shapes of a network's weights."""
    module = plugins.get("model", "resnet").load()
    with torch.device("meta"):
        shapes = [
            weight.shape for weight in module(resolve(module, sizes.network), (3, 32, 32), 10).parameters()
        ]
    return [torch.randn(shape, generator=generator).to(device) for shape in shapes]


def _chosen(selection: str, generator: torch.Generator, tensors: list[Tensor]) -> list[Tensor]:
    density = SAMPLED_DENSITY if selection == "sampled" else DENSITY
    return sparse.choose(tensors, density, select.SELECT[selection], generator)


def _take_chunks(of: Any, width: int, tensors: list[Tensor]) -> tuple[Any, list[chunks.Chunks]]:
    own = [of.Chunks(tensor, CHUNK, OF_A_CHUNK) for tensor in tensors]
    return chunks.take(tensors, own, width), own


def _mean_of_chunks(width: int, sent: tuple[Any, list[chunks.Chunks]], tensors: list[Tensor]) -> object:
    payload, own = sent
    return chunks.mean([chunks.read(payload, own, width)], own, of_senders=False)


def _encode(codec: lossy.Codec, tensors: list[Tensor]) -> object:
    return lossy.join(lossy.encode(codec, [tensor.view(-1) for tensor in tensors]))


def _decode(codec: lossy.Codec, sent: Any, tensors: list[Tensor]) -> object:
    return lossy.decode(codec, sent, [tensor.numel() for tensor in tensors])
