"""How much of the workers' progress merges leave, and a learning rate that makes up for the rest."""

from typing import Any

from thinwire import Run


def share_left(skips: int, wait: int, nodes: int) -> float:
    """The progress of a step, on average, over that of SSGD, where gradient and rate are constant.

    A merge leaves 2 S / (2 S + P) of the S steps since the message was sent. The other B - S steps count in
    full. Where S is 0, the exchange blocks, and nothing is lost.
    """
    if wait == 0:
        return 1.0
    return (skips - wait + wait * 2 * wait / (2 * wait + nodes)) / skips


def match_progress(run: Run, memory: dict[str, Any]) -> None:
    """Divide the learning rate of this step by the share of its progress that merges leave."""
    share = share_left(memory["skips"], memory["wait"], run.cluster.nodes)
    for group in run.optimizer.param_groups:
        group["lr"] = run.lr / share
