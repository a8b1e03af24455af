"""How long ranks wait until all of them have come."""

from pathlib import Path

import pytest

from thinwire.config.expand_suite import cells
from thinwire.config.suite import load
from thinwire.launch import rank
from thinwire.transport.rank_placement import Placement
from thinwire.transport.rendezvous import Refused


@pytest.mark.parametrize(("hang_seconds", "expected"), [(20, 20), (300, 300), (3600, 600)])
def test_ranks_wait_for_each_other_for_ten_minutes_unless_the_suite_says_less(
    monkeypatch, hang_seconds, expected
):
    waited = []

    def join(placement, timeout_seconds, refusal):
        waited.append(timeout_seconds)
        raise Refused("enough")

    monkeypatch.setattr(rank, "join", join)
    suite = load("demo").model_copy(update={"hang_seconds": hang_seconds})
    placement = Placement(1, 4, 1, "node", "127.0.0.1", 1, "srun", b"secret")
    cell = cells("demo")[0]
    assert (
        rank.run(cell, Path("results"), suite, placement, (), 0.0, False, lambda attempt: 0) == rank.BAD_INPUT
    )
    assert waited == [expected]
