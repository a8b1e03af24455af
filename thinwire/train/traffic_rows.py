"""The ledgers of all workers, as columns of a run's curve and as rows of its table of traffic."""

from collections.abc import Sequence
from dataclasses import asdict, astuple

from thinwire.traffic.ledger import Bytes, Ledger
from thinwire.transport.transport import Transport

_COLUMNS = ("payload_push", "payload_pull", "wire_sent", "wire_received", "between_nodes")
# Also as the maximum over the workers.
_OF_THE_BUSIEST = ("wire_sent", "wire_received")


def totals(ledgers: Sequence[Ledger], transport: Transport) -> dict[str, float]:
    """The traffic so far, in bytes: means over the workers, and the most that one of them sent and received.

    Args:
        ledgers: of the workers of this process.
        transport: to the workers of the other processes.
    """
    of_all_workers = transport.share([astuple(ledger.total()) for ledger in ledgers])
    return _columns([Bytes(*total) for total in of_all_workers])


def rows(ledgers: Sequence[Ledger], transport: Transport) -> list[dict[str, object]]:
    """The same traffic, with a row for each channel, verb and kind."""
    of_all_workers = transport.share([ledger.state() for ledger in ledgers])
    made = []
    for key in dict.fromkeys(key for ledger in of_all_workers for key in ledger):
        each = [Bytes(*ledger.get(key, ())) for ledger in of_all_workers]
        channel, verb, kind = key.split("/")
        messages = sum(row.messages for row in each) / len(each)
        made.append({"channel": channel, "verb": verb, "kind": kind, "messages": messages, **_columns(each)})
    return made


def _columns(workers: list[Bytes]) -> dict[str, float]:
    each = [asdict(worker) for worker in workers]
    means = {f"{c}_bytes": sum(worker[c] for worker in each) / len(each) for c in _COLUMNS}
    largest = {f"{c}_max_bytes": float(max(worker[c] for worker in each)) for c in _OF_THE_BUSIEST}
    return means | largest
