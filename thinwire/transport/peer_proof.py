"""Proof that the processes at the other ends of a group's connections belong to this run.

gloo does not authenticate: it accepts the first process that connects and names the small number that it
expects. Only ranks know the key of their group. So after a group has opened, every member sends a proof to
every other member. It uses the same connection that will carry their tensors. Only these two members can
compute that proof.
"""

from datetime import timedelta

import torch
import torch.distributed as dist

from thinwire.errors import UserError
from thinwire.transport import handshake


def prove(group: dist.ProcessGroup, key: bytes, timeout_seconds: float) -> None:
    """Prove to every other member that this process belongs to the run, and check their proofs.

    All members must call this at the same time.

    Args:
        group: a group that has just been opened.
        key: a key that only the ranks of this rendezvous know.
        timeout_seconds: how long to wait for the proofs of the others.

    Raises:
        UserError: another process has taken the place of a member.
        DistNetworkError: a proof did not arrive in time.
    """
    members = dist.get_process_group_ranks(group)
    own = dist.get_rank()

    def proof(sender: int, receiver: int) -> bytes:
        return handshake.answer(key, handshake.RANK, f"{group.group_name} {sender} {receiver}".encode())

    sent = b"".join(proof(own, other) for other in members)
    expected = b"".join(proof(other, own) for other in members)
    given = torch.empty(len(expected), dtype=torch.uint8)
    row = torch.frombuffer(bytearray(sent), dtype=torch.uint8)
    try:
        work = dist.all_to_all_single(given, row, group=group, async_op=True)
        work.wait(timedelta(seconds=timeout_seconds))
    except RuntimeError as error:
        text = f"ranks {members} did not receive each other's proofs: {error}"
        raise dist.DistNetworkError(text) from None
    for place, other in enumerate(members):
        part = slice(place * handshake.BYTES, (place + 1) * handshake.BYTES)
        if given[part].numpy().tobytes() != expected[part]:
            raise UserError(
                f"a process that is not part of this run has connected to rank {own} in the place of rank "
                f"{other}: start the run again, where no stranger can reach it"
            )
