"""Checks that every message that was sent has been received."""

from thinwire.errors import MethodError
from thinwire.transport.call_log import Summary


def require_received(summaries: list[dict[str, Summary]]) -> None:
    """Check that every message has been received.

    Args:
        summaries: of every worker, by channel.

    Raises:
        MethodError: a message has not; the error names its sender and receiver.
    """
    for key in {key for summary in summaries for key in summary}:
        members = [summary[key] for summary in summaries if key in summary]
        for source, sender in enumerate(members):
            for to, receiver in enumerate(members):
                sent, received = sender["sent"][to], receiver["received"][source]
                if sent != received:
                    raise MethodError(
                        f"rank {source} sent {sent} messages to rank {to} on run.{key.split('/')[0]}, which "
                        f"asked for {received}"
                    )
