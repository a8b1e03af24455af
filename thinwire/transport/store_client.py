"""A client of the run's key-value store, with the interface that torch.distributed requires."""

import errno
import socket
import time
from contextlib import suppress
from datetime import timedelta
from threading import Lock

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from thinwire.transport import framing, handshake
from thinwire.transport.store_server import PROVING_SECONDS, StoreServer

# Seconds between two attempts to connect: the pause doubles from the first value up to the last.
_FIRST_PAUSE, _LAST_PAUSE = 0.02, 0.5
# The time-out of a request is divided into this many waits. A frozen process loses only one.
_WAITS = 4
_LEAST_SECONDS = 0.1
# No later attempt to connect mends this.
_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)


class NotThisRun(OSError):
    """What listens there does not know the run's secret."""


class RunStore(Store):
    """One connection to the store; after a request that timed out, the next one connects again.

    Methods raise RuntimeErrors, as those of torch's stores do. `DistStoreError` means that a key was not
    there in time, and `DistNetworkError` that rank 0 no longer answers.
    """

    timeout: timedelta  # an attribute of torch's class that its type stubs lack

    def __init__(
        self, host: str, port: int, secret: bytes, seconds: float, server: StoreServer | None = None
    ) -> None:
        """Connect.

        Args:
            host: of rank 0.
            port: at which rank 0 listens.
            secret: of the run.
            seconds: the time-out for connecting, and for later requests that have no time-out of their own.
            server: on rank 0 only: the server itself, which is kept as long as this object.

        Raises:
            NotThisRun: what listens there is not rank 0 of this run.
            OSError: rank 0 cannot be reached.
        """
        super().__init__()
        self.set_timeout(timedelta(seconds=seconds))
        self.secret, self.server = secret, server
        self._server_address, self._lock = (host, port), Lock()
        self._clones: list[RunStore] = []
        self._socket: socket.socket | None = None
        self._socket = _connect(host, port, secret, seconds, server)

    def __del__(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def address(self) -> str:
        """The address of this host on its connection to rank 0."""
        assert self._socket is not None
        return str(self._socket.getsockname()[0])

    # torch calls these methods from C++, by these names.

    def set(self, key: str, value: str | bytes) -> None:
        self._request(b"set", key.encode(), value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        return self._request(b"get", key.encode())[0]

    def add(self, key: str, amount: int) -> int:
        return int(self._request(b"add", key.encode(), str(amount).encode())[0])

    def check(self, keys: list[str]) -> bool:
        return self._request(b"check", *(key.encode() for key in keys))[0] == b"yes"

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        self._request(b"wait", *(key.encode() for key in keys), timeout=timeout)

    def deleteKey(self, key: str) -> bool:  # noqa: N802
        return self._request(b"delete", key.encode())[0] == b"yes"

    def getNumKeys(self) -> int:  # noqa: N802
        return int(self._request(b"count")[0])

    def clone(self) -> "RunStore":
        seconds = self.timeout.total_seconds()
        # Kept here, because torch keeps only the C++ object behind the clone.
        self._clones.append(RunStore(*self._server_address, self.secret, seconds))
        return self._clones[-1]

    def _request(self, *request: bytes, timeout: timedelta | None = None) -> list[bytes]:
        seconds = (self.timeout if timeout is None else timeout).total_seconds()
        # Even an answer that is there takes a moment.
        seconds = max(seconds, _LEAST_SECONDS)
        with self._lock:
            try:
                if self._socket is None:
                    self._socket = _connect(*self._server_address, self.secret, seconds)
                self._socket.settimeout(seconds / _WAITS)
                self._socket.sendall(framing.pack(list(request)))
                header = _read(self._socket, framing.HEADER, _WAITS)
                return framing.unpack(_read(self._socket, framing.body_bytes(header), _WAITS))
            except OSError as error:
                # Otherwise a late answer would be taken for the answer to the next request.
                self._disconnect()
                verb, *arguments = (field.decode(errors="replace") for field in request)
                if isinstance(error, TimeoutError):
                    raise dist.DistStoreError(
                        f"{verb} {' '.join(arguments[:1])} was not answered within {seconds:.0f} s"
                    ) from None
                raise dist.DistNetworkError(f"the store of the run is gone ({error})") from None


def _connect(
    host: str, port: int, secret: bytes, seconds: float, server: StoreServer | None = None
) -> socket.socket:
    """Connect, with repeated attempts; raise the error of the last attempt when the time is over.

    If the server in this process, if any, cannot accept connections, that is raised at once.
    """
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        try:
            return _try_to_connect(host, port, secret, max(0.01, deadline - time.monotonic()))
        except OSError as error:
            if server is not None and server.problem is not None:
                raise server.problem from None
            if error.errno in _TOO_MANY_FILES or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)


def _try_to_connect(host: str, port: int, secret: bytes, seconds: float) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=seconds)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(min(seconds, PROVING_SECONDS))
        try:
            own = handshake.challenge()
            challenges = _read(connection, handshake.BYTES) + own
            connection.sendall(own + handshake.answer(secret, handshake.RANK, challenges))
            given = _read(connection, handshake.BYTES)
        except (ConnectionError, TimeoutError):
            raise NotThisRun("it does not know the secret of this run") from None
        if not handshake.proves(given, secret, handshake.STORE, challenges):
            raise NotThisRun("it does not know the secret of this run")
    except BaseException:
        with suppress(OSError):
            connection.close()
        raise
    return connection


def _read(connection: socket.socket, size: int, waits: int = 1) -> bytes:
    """Read `size` bytes; the connection may time out `waits` times before this raises a TimeoutError."""
    read = bytearray()
    while len(read) < size:
        try:
            more = connection.recv(size - len(read))
        except TimeoutError:
            waits -= 1
            if waits == 0:
                raise
            continue
        if not more:
            raise ConnectionResetError("the connection was closed")
        read += more
    return bytes(read)
