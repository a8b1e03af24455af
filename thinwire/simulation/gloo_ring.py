"""How long gloo's ring waits for the latency of links: more than the latencies that the algorithm needs.

A ring of W members has 2 (W-1) steps, so the algorithm waits for 2 (W-1) latencies. gloo cuts the bytes of a
member into segments and has two under way. It sends a segment only when the receiver has said that it is
ready, which takes another latency. The receiver says so when the last segment but one has arrived. Two
members have one connection: then that word also goes behind what the receiver itself is sending.

Source: gloo/allreduce.cc (`ring`) and gloo/transport/tcp/pair.cc (`sendNotifyRecvReady`) at PyTorch 2.x.
"""

from math import ceil

# `maxSegmentSize` of gloo's all-reduce.
SEGMENT_BYTES = 2**20


def latency_seconds(
    half_bytes: float, members: int, latency: float, rate_bytes_per_second: float, burst_seconds: float = 0.0
) -> float:
    """How much longer half an all-reduce takes than its bytes: all adding, or all passing on.

    Args:
        half_bytes: that a member sends in this half.
        members: of the ring.
        latency: of a link, one way, in seconds.
        rate_bytes_per_second: of a link, payload.
        burst_seconds: by how much a link is ahead of its rate after as long a pause. That before the first
            segment is not counted here.
    """
    in_all = ceil(half_bytes * members / (members - 1) / SEGMENT_BYTES)
    of_member = ceil(max(in_all, 2 * members) / members)
    segments = of_member * (members - 1)
    seconds = half_bytes / segments / rate_bytes_per_second
    handed_over: list[float] = []  # to the connection, by segment
    sent: list[float] = []
    for number in range(segments):
        ready = sent[number - 2] + latency if number >= 2 else 0.0
        before = [end for begin, end in zip(handed_over, sent) if begin <= ready]
        said = max([ready, *before]) if members == 2 else ready
        handed_over.append(max(ready, said + latency))
        free = sent[-1] if sent else handed_over[0]
        begin = max(free, handed_over[-1])
        sent.append(begin + seconds - min(burst_seconds, begin - free))
    return sent[-1] + latency - segments * seconds
