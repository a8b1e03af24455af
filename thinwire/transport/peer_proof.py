"""Whether those at the other ends of a group's connections are of the run.

gloo asks nobody who he is: whoever connects first, and names the small number that it expects, is taken for a
rank. Rank and stranger differ in what they know. So when a group has opened, every member sends each of the
others a proof that only these two can expect, on the very connection that will carry their tensors.
"""

from datetime import timedelta

import torch
import torch.distributed as dist

from thinwire.errors import UserError
from thinwire.transport import handshake


def prove(group: dist.ProcessGroup, key: bytes, timeout_seconds: float) -> None:
    """Every member proves itself to every other; all members call this.

    Args:
        group: that has just opened.
        key: known to the ranks of this meeting and to nobody else.
        timeout_seconds: for the others' proofs to come.

    Raises:
        UserError: somebody else has taken the place of a member.
        RuntimeError: a proof did not come.
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
        raise RuntimeError(f"ranks {members} did not hear from each other when they met: {error}") from None
    for place, other in enumerate(members):
        part = slice(place * handshake.BYTES, (place + 1) * handshake.BYTES)
        if given[part].numpy().tobytes() != expected[part]:
            raise UserError(
                f"somebody who is not of this run has connected to rank {own} in the place of rank {other}: "
                "start the run again, where no stranger can reach it"
            )
