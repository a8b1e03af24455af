"""The compressed all-reduce: servers average one part of a row each, and answer with it compressed again.

    worker i:  p_i = x_i + e_i;  Q(part j of p_i) goes to server j;  e_i = p_i - Q(p_i)
    server j:  q = 1/W sum_i Q(p_i)_j + f_j;  Q(q) goes to all workers;  f_j = q - Q(q)

Q is any codec. The errors e_i and f_j are optional; without them, what Q loses is lost. Sums are in full
precision. With one part for each worker, a worker sends as much on the wire as in a ring of such values.

Sources: Tang et al., "DoubleSqueeze" (arXiv 1905.05957), has the two errors; Tang et al., "1-bit Adam" (arXiv
2102.02888), a server for each part.
"""

from typing import Any

import torch
from torch import Tensor

from thinwire.api.channel import Channel, hosting_rank
from thinwire.codecs import lossy
from thinwire.codecs.lossy import Codec
from thinwire.traffic.payload import Payload
from thinwire.transport.call import Pending, Server


def all_reduce(
    channel: Channel, parts: list[Tensor], codec: Codec, memory: dict[str, Any] | None = None
) -> list[Tensor]:
    """Return the mean of each part as all workers decode it, the same bits on all; see `exchange`."""
    answers, _ = exchange(channel, parts, codec, memory)
    return [codec.decode(answer, len(part)) for answer, part in zip(answers, parts)]


def exchange(
    channel: Channel,
    parts: list[Tensor],
    codec: Codec,
    memory: dict[str, Any] | None = None,
    answers: bool = True,
) -> tuple[list[Payload], list[Tensor]]:
    """Average each part on a server; part j is on the worker with rank j, and so on around the channel.

    Args:
        channel: of the workers that average.
        parts: flat tensors, of the same sizes on all workers.
        codec: how parts and their means are compressed.
        memory: a dictionary inside the method's `memory`, for the errors of this worker and of its servers.
            None: none are kept.
        answers: whether all workers pull the means.

    Returns:
        The encoded means of all parts, empty payloads without answers; and in full precision the means of
        the parts whose server is on this worker.
    """
    pulls, servers = start(channel, parts, codec, memory, answers)
    encoded = [pull.wait() for pull in pulls]
    here = [j for j in range(len(parts)) if hosting_rank(j, channel.size) == channel.rank]
    return encoded, [servers[j].mean for j in here]


def start(
    channel: Channel,
    parts: list[Tensor],
    codec: Codec,
    memory: dict[str, Any] | None = None,
    answers: bool = True,
) -> tuple[list[Pending[Payload]], list["Mean"]]:
    """Start what `exchange` does; return for each part its pending encoded mean, and its server."""
    errors = None if memory is None else _kept(memory, "errors", parts)
    servers = [
        Mean(codec, len(part), None if memory is None else memory.setdefault(f"server {j}", {}), answers)
        for j, part in enumerate(parts)
    ]
    payloads = lossy.encode(codec, parts, errors)
    pushes = ((j, payload, servers[j]) for j, payload in enumerate(payloads))
    return channel.push_pulls(pushes), servers


class Mean(Server):
    """Averages what is pushed, and answers with the mean compressed, or with nothing."""

    def __init__(self, codec: Codec, count: int, memory: dict[str, Any] | None, answers: bool = True) -> None:
        """Serve a part with so many entries; without a memory, no error of the answers is kept."""
        super().__init__({} if memory is None else memory)
        self._codec, self._count, self._answers = codec, count, answers
        self._keeps_errors = memory is not None

    def update(self, pushes: list[Payload]) -> Payload:
        """Return the mean of the pushes, encoded; `mean` has it in full precision."""
        self.mean = lossy.mean([self._codec.decode(push, self._count) for push in pushes])
        if not self._answers:
            return {}
        errors = _kept(self.memory, "errors", [self.mean]) if self._keeps_errors else None
        (answer,) = lossy.encode(self._codec, [self.mean], errors)
        return answer


def _kept(memory: dict[str, Any], name: str, like: list[Tensor]) -> list[Tensor]:
    """Return the tensors under this name; the first time, zeros in these shapes."""
    if name not in memory:
        memory[name] = [torch.zeros_like(tensor) for tensor in like]
    return memory[name]
