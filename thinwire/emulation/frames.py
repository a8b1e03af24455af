"""What TCP/IP over Ethernet adds to a payload, on the emulated links and on real ones.

A full frame has 1,514 bytes: 14 of Ethernet, 20 of IP, 32 of TCP with time stamps, and 1,448 of payload. The
receiver acknowledges at least every second frame, mostly fewer, with a frame of 66 bytes. So for messages of
many frames the bytes on all links together are 4.6 to 6.8 % more than the payload. Preambles, checksums of
frames and gaps between them (24 bytes a frame) are not counted: the rate of an emulated link leaves them out.
"""

PAYLOAD, HEADERS = 1448, 66


def payload_rate(rate_bytes_per_second: float) -> float:
    """Bytes of payload in a second, over a link that is full in one direction."""
    return rate_bytes_per_second * PAYLOAD / (PAYLOAD + HEADERS)
