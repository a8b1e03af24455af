"""When the authors' code sends and merges, its accidents included."""

import math

from .exchange import Exchange


def sync_weights_as_published(exchange: Exchange, step: int, last: bool) -> None:
    """As in `DASO.step` and `DASO._global_sync` of Heat.

    Args:
        step: of the epoch, counts from 0.
        last: is it the epoch's last one?
    """
    memory, skips = exchange.memory, exchange.memory["skips"]
    wait = min(memory["wait"], exchange.run.steps_per_epoch - 1 - step)
    if last or skips == 0 or step % skips == 0:
        sent = exchange.send()
        if memory["wait"] != 0:
            _merge_what_was_sent_last(exchange)
        if last or memory["wait"] == 0:
            exchange.blocking_mean(sent)
            memory["previous"] = None
        else:
            exchange.launch(sent, wait)
            memory["previous"] = memory["group"]
        exchange.pass_turn(last)
    elif step % skips == wait and (step + 1) % skips != 0:
        _merge_what_was_sent_last(exchange)


def _merge_what_was_sent_last(exchange: Exchange) -> None:
    """The nodes copy the weights of the last sender even if it has merged before."""
    for landing in exchange.flight.landed(math.inf):
        exchange.merge(landing, staleness=landing.note["wait"])
    if exchange.memory["previous"] is not None:
        exchange.copy_inside_nodes(exchange.memory["previous"])
