"""The rate and the round trip between two hosts, measured within three seconds.

    python -m thinwire.simulation.probe [PORT]     on the other host: waits for one client, and ends

It prints where it listens, as TOKEN@HOST:PORT. Whoever knows the token is measured, anybody else is turned
away. A client makes two connections, each of which begins with the token. On the first one, single bytes come
back, then zeros come for a second. On the second one, the client sends zeros until the server says how many
bytes have arrived in a second. So each direction is measured where it arrives, and what still waits to be
sent in one direction holds up nothing in the other. The first part of each second is left out, in which TCP
finds the rate. One connection may reach less than the rate of a link if the round trip is long.
"""

import contextlib
import hmac
import secrets
import select
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from thinwire.base.errors import UserError
from thinwire.traffic.wire_bytes import payload_rate

PORT = 29477
_WAIT_SECONDS = 600.0  # for a client
_ANSWER_SECONDS = 5.0
_RATE_SECONDS, _LEFT_OUT_SECONDS = 1.0, 0.4
_ROUND_TRIP_SECONDS, _MOST_ROUND_TRIPS = 0.4, 50
_ZEROS = memoryview(bytes(2**18))
_PING, _DOWN, _UP = b"\x01", b"\x02", b"\x03"  # what a client asks for
_COUNTED = struct.Struct("!d")  # bytes in a second
_TOKEN_BYTES = 16  # of its text, in hexadecimal digits


class Server(NamedTuple):
    """Where a server listens, and what it wants to hear."""

    token: str
    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> "Server":
        """From TOKEN@HOST or TOKEN@HOST:PORT, as the server prints it.

        Raises:
            UserError: it is not that.
        """
        token, _, place = text.rpartition("@")
        host, _, port = place.rpartition(":") if place.count(":") == 1 else (place, "", str(PORT))
        if len(token) != _TOKEN_BYTES or not token.isascii() or not host or not _is_port(port):
            raise UserError(
                f"{text!r} is no server: give TOKEN@HOST:PORT, as `python -m thinwire.simulation.probe` "
                "prints it on that host"
            )
        return cls(token, host, int(port))

    def __str__(self) -> str:
        return f"{self.token}@{self.host}:{self.port}"


@dataclass(frozen=True)
class Link:
    """What a link can do."""

    to_bits_per_second: float
    """To the server. Headers of frames are included, as in the rates of clusters."""
    from_bits_per_second: float
    """From the server."""
    round_trip_seconds: float
    """The least of several."""


def measure(server: Server) -> Link:
    """Measure the link to a server.

    Raises:
        UserError: nothing answers, or the server knows another token, or it stops in the middle.
    """
    where = f"{server.host}:{server.port}"
    try:
        with _connection(server) as connection:
            round_trip = _round_trip(connection)
            connection.sendall(_DOWN)
            down = _rate(connection)
        with _connection(server) as connection:
            connection.sendall(_UP)
            up = _send_until_answered(connection)
    except (OSError, struct.error) as error:
        raise UserError(
            f"the server at {where} does not answer as it should ({error}): copy the token that it has "
            "printed, and start it again for each client"
        ) from error
    return Link(_bits(up), _bits(down), round_trip)


def _connection(server: Server) -> socket.socket:
    try:
        connection = socket.create_connection((server.host, server.port), _ANSWER_SECONDS)
    except OSError as error:
        raise UserError(
            f"nothing answers at {server.host}:{server.port} ({error}): start "
            "`python -m thinwire.simulation.probe` there, and let its port through"
        ) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # What has not been sent when it is closed never will be.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(server.token.encode())
    return connection


def _print(server: Server) -> None:
    print(server, flush=True)  # somebody waits for it, perhaps behind a pipe


def serve(port: int = PORT, tell: Callable[[Server], None] = _print, host: str = "") -> None:
    """Wait for one client that knows the token, and answer it.

    Args:
        port: to listen on; 0 takes a free one.
        tell: takes the address and the token, when the server listens.
        host: the address to listen on; all of this host if empty.

    Raises:
        UserError: the port is taken, or no client came within ten minutes.
    """
    token = secrets.token_hex(_TOKEN_BYTES // 2)
    try:
        listening = socket.create_server((host, port))
    except OSError as error:
        raise UserError(f"nobody can listen on port {port}, perhaps it is taken: choose another") from error
    with listening:
        listening.settimeout(_WAIT_SECONDS)
        tell(Server(token, host or socket.gethostname(), listening.getsockname()[1]))
        try:
            while not _answer(listening.accept()[0], token):
                pass
        except TimeoutError as error:
            raise UserError(
                f"no client came within {_WAIT_SECONDS / 60:.0f} minutes: start it again"
            ) from error


def _answer(connection: socket.socket, token: str) -> bool:
    """Answer a client on one of its connections; was it the last one?"""
    with connection, contextlib.suppress(OSError):
        connection.settimeout(_ANSWER_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not hmac.compare_digest(_received(connection, _TOKEN_BYTES), token.encode()):
            return False
        while (asked := _received(connection, 1)) == _PING:
            connection.sendall(_PING)
        if asked == _DOWN:
            end = monotonic() + 2 * _RATE_SECONDS  # the client closes the connection earlier
            while monotonic() < end:
                connection.send(_ZEROS)
        elif asked == _UP:
            connection.sendall(_COUNTED.pack(_rate(connection)))
            with contextlib.suppress(OSError):
                while connection.recv(len(_ZEROS)):
                    pass  # closing before the client does could destroy what it has not read yet
            return True
    return False


def _round_trip(connection: socket.socket) -> float:
    """The least time from a byte to its answer, in seconds."""
    least, end = float("inf"), monotonic() + _ROUND_TRIP_SECONDS
    for _ in range(_MOST_ROUND_TRIPS):
        began = monotonic()
        connection.sendall(_PING)
        if _received(connection, 1) != _PING:
            raise ConnectionError("it has closed the connection")
        least = min(least, monotonic() - began)
        if monotonic() > end:
            break
    return least


def _send_until_answered(connection: socket.socket) -> float:
    """Send zeros until the server says how many bytes have arrived in a second."""
    end = monotonic() + _RATE_SECONDS + _ANSWER_SECONDS
    while monotonic() < end:
        readable, writable, _ = select.select([connection], [connection], [], _ANSWER_SECONDS)
        if readable:
            (counted,) = _COUNTED.unpack(_received(connection, _COUNTED.size))
            return float(counted)
        if writable:
            connection.send(_ZEROS[: 2**14])
    raise TimeoutError("timed out")


def _rate(connection: socket.socket) -> float:
    """The bytes that arrive in a second, counted after TCP has found the rate."""
    counted = since = 0.0
    room = bytearray(len(_ZEROS))
    began = now = monotonic()
    while now < began + _RATE_SECONDS:
        many = connection.recv_into(room)
        if not many:
            raise ConnectionError("it has closed the connection")
        now = monotonic()
        if since:
            counted += many
        elif now > began + _LEFT_OUT_SECONDS:
            since = now
    if not counted:
        raise TimeoutError("too little has arrived")
    return counted / (now - since)


def _received(connection: socket.socket, many: int) -> bytes:
    """So many bytes, or fewer if the other end has closed the connection."""
    found = b""
    while len(found) < many and (part := connection.recv(many - len(found))):
        found += part
    return found


def _bits(payload_bytes: float) -> float:
    """Bits of frames, from bytes of payload."""
    return 8 * payload_bytes / payload_rate(1.0)


def _is_port(text: str) -> bool:
    return text.isdecimal() and int(text) < 2**16


def _main(words: list[str]) -> int:
    try:
        if words and not (len(words) == 1 and _is_port(words[0])):
            raise UserError(f"{' '.join(words)!r} is no port: give one number below 65,536, or none")
        serve(int(words[0]) if words else PORT)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
