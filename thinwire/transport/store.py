"""A connection to the store of a run, as torch.distributed wants it."""

import socket
import time
from contextlib import suppress
from datetime import timedelta
from threading import Lock

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from thinwire.transport import framing, handshake
from thinwire.transport.store_server import PROVING_SECONDS, StoreServer

# Between two tries to connect; it doubles from the first to the last.
_FIRST_PAUSE, _LAST_PAUSE = 0.02, 0.5
# In so many parts is time for an answer counted: a process that was frozen for long has lost one of them.
_PARTS = 4


class NotThisRun(OSError):
    """Something listens there which does not know the run's secret."""


class RunStore(Store):
    """One connection; it is made again after a wait that took too long.

    Methods raise RuntimeErrors, as those of torch's stores do: `DistStoreError` where a key did not come in
    time, `DistNetworkError` where rank 0 does not answer any more.
    """

    timeout: timedelta  # torch's own, which its stubs do not name

    def __init__(
        self, host: str, port: int, secret: bytes, seconds: float, server: StoreServer | None = None
    ) -> None:
        """Connect.

        Args:
            host: of rank 0.
            port: at which it listens.
            secret: of the run.
            seconds: for connecting, and later for keys to come, unless a call says otherwise.
            server: lives as long as this, in rank 0.

        Raises:
            NotThisRun: what listens there is not rank 0 of this run.
            OSError: it cannot be reached.
        """
        super().__init__()
        self.set_timeout(timedelta(seconds=seconds))
        self.secret, self.server = secret, server
        self._where, self._turn = (host, port), Lock()
        self._clones: list[RunStore] = []
        self._socket: socket.socket | None = None
        self._socket = _connect(host, port, secret, seconds)

    def __del__(self) -> None:
        self._hang_up()

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def address(self) -> str:
        """The address of this host on the way to rank 0."""
        assert self._socket is not None
        return str(self._socket.getsockname()[0])

    # torch calls these under the names that they have here, from C++.

    def set(self, key: str, value: str | bytes) -> None:
        self._ask(b"set", key.encode(), value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        return self._ask(b"get", key.encode())[0]

    def add(self, key: str, amount: int) -> int:
        return int(self._ask(b"add", key.encode(), str(amount).encode())[0])

    def check(self, keys: list[str]) -> bool:
        return self._ask(b"check", *(key.encode() for key in keys))[0] == b"yes"

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        self._ask(b"wait", *(key.encode() for key in keys), timeout=timeout)

    def deleteKey(self, key: str) -> bool:  # noqa: N802
        return self._ask(b"delete", key.encode())[0] == b"yes"

    def getNumKeys(self) -> int:  # noqa: N802
        return int(self._ask(b"count")[0])

    def clone(self) -> "RunStore":
        seconds = self.timeout.total_seconds()
        # torch keeps only the C++ half of what this gives.
        self._clones.append(RunStore(*self._where, self.secret, seconds))
        return self._clones[-1]

    def _ask(self, *request: bytes, timeout: timedelta | None = None) -> list[bytes]:
        seconds = (timeout or self.timeout).total_seconds()
        with self._turn:
            try:
                if self._socket is None:
                    self._socket = _connect(*self._where, self.secret, seconds)
                self._socket.settimeout(seconds / _PARTS)
                self._socket.sendall(framing.pack(list(request)))
                header = _read(self._socket, framing.HEADER, _PARTS)
                return framing.unpack(_read(self._socket, framing.body_bytes(header), _PARTS))
            except OSError as error:
                # An answer that comes later would be taken for that of the next request.
                self._hang_up()
                verb, *about = (field.decode(errors="replace") for field in request)
                if isinstance(error, TimeoutError):
                    raise dist.DistStoreError(
                        f"{verb} {' '.join(about[:1])} was not answered within {seconds:.0f} s"
                    ) from None
                raise dist.DistNetworkError(f"the store of the run is gone ({error})") from None


def _connect(host: str, port: int, secret: bytes, seconds: float) -> socket.socket:
    """Try until it is there, or time is over; then say why the last try failed."""
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        try:
            return _try_to_connect(host, port, secret, max(0.01, deadline - time.monotonic()))
        except OSError:
            if time.monotonic() + pause > deadline:
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


def _read(connection: socket.socket, size: int, parts: int = 1) -> bytes:
    """So many bytes; a part of the time is what the connection has as its time-out."""
    read = bytearray()
    while len(read) < size:
        try:
            more = connection.recv(size - len(read))
        except TimeoutError:
            parts -= 1
            if parts == 0:
                raise
            continue
        if not more:
            raise ConnectionResetError("it has closed the connection")
        read += more
    return bytes(read)
