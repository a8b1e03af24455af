"""How long gloo's ring waits for the latency of links."""

import pytest

from thinwire.simulation.links import SEGMENT_BYTES, ring_latency_seconds

LATENCY = 25e-3


@pytest.mark.parametrize(
    ("members", "latencies"),
    [
        (2, 2),  # two segments, both at once: a word that the receiver is ready, and the bytes
        (3, 4),  # four, in two pairs
        (4, 6),
    ],
)
def test_few_bytes_wait_for_two_latencies_a_pair_of_segments(members, latencies):
    assert ring_latency_seconds(8.0, members, LATENCY, 1e9) == pytest.approx(latencies * LATENCY)


def test_five_segments_of_two_members_wait_behind_what_the_members_send_themselves():
    """By hand, at 10 ms a segment and 10 ms one way.

    Segments 0 and 1 leave from 10 to 30 ms, and arrive at 30 and 40. Then the member is ready for 2 and 3.
    The word for 2 has nothing before it, so 2 leaves at 40. The word for 3 goes behind 2, which has left at
    50, so 3 leaves at 60. At 60, 2 arrives; the word for 4 goes behind 3, which has left at 70. So 4 leaves
    at 80, and arrives at 100. Its bytes alone take 50.
    """
    half, rate = 5.0 * SEGMENT_BYTES, SEGMENT_BYTES / 10e-3
    assert ring_latency_seconds(half, 2, 10e-3, rate) == pytest.approx(50e-3)


def test_a_link_that_waits_is_ahead_of_its_rate_afterwards():
    half, rate = 5.0 * SEGMENT_BYTES, SEGMENT_BYTES / 10e-3
    # It waits before segments 2, 3 and 4, each time for 10 ms.
    assert ring_latency_seconds(half, 2, 10e-3, rate, 1e-3) == pytest.approx(47e-3, abs=1e-3)
