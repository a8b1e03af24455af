"""The key-value store of a run, which a thread of rank 0 serves to all ranks.

torch has such a store, but it serves everybody who can reach its port: anybody can list and change its keys.
This store serves only clients that prove, at the beginning of a connection, that they know the run's secret.
From all others it reads a fixed number of bytes, for a few seconds at most.
"""

import asyncio
import socket
from collections.abc import Sequence
from threading import Thread
from typing import Any

from thinwire.transport import framing, handshake

# A client must prove within this many seconds that it knows the secret: enough on a slow machine, too.
PROVING_SECONDS = 10.0
# If more connections than this have not proved anything, the oldest one is closed. So strangers cannot use up
# the files that this process may open.
MOST_UNPROVED = 64


class StoreServer:
    """Stores keys and values, and serves them on sockets that already listen."""

    def __init__(self, listeners: Sequence[socket.socket], secret: bytes) -> None:
        """Begin to serve.

        Args:
            listeners: that listen already.
            secret: of the run.

        Raises:
            OSError: too many files are open.
        """
        self.problem: OSError | None = None  # why connections are not accepted now
        self._secret = secret
        self._values: dict[bytes, bytes] = {}
        self._unproved: list[asyncio.StreamWriter] = []
        self._changed = asyncio.Condition()
        # Made here and not in the thread, so that the caller hears of an error.
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(self._note)
        serving = self._serve_all(listeners)
        Thread(target=loop.run_until_complete, args=(serving,), name="store", daemon=True).start()

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep the error of a connection that is not accepted; asyncio tries it again after a second."""
        error = context.get("exception")
        if isinstance(error, OSError):
            self.problem = error
        else:
            loop.default_exception_handler(context)

    async def _serve_all(self, listeners: Sequence[socket.socket]) -> None:
        servers = [await asyncio.start_server(self._connected, sock=listener) for listener in listeners]
        await asyncio.gather(*(server.serve_forever() for server in servers))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end; a connection that breaks does not affect the others."""
        try:
            if await self._is_of_the_run(reader, writer):
                while True:
                    request = await reader.readexactly(
                        framing.body_bytes(await reader.readexactly(framing.HEADER))
                    )
                    writer.write(framing.pack(await self._answer(*framing.unpack(request))))
                    await writer.drain()
        except (OSError, EOFError, TimeoutError):
            pass
        finally:
            writer.close()

    async def _is_of_the_run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Does the client prove that it knows the secret? If so, prove the same to it."""
        self._unproved.append(writer)
        if len(self._unproved) > MOST_UNPROVED:
            self._unproved[0].transport.abort()
            del self._unproved[0]
        try:
            async with asyncio.timeout(PROVING_SECONDS):
                own = handshake.challenge()
                writer.write(own)
                challenges = own + await reader.readexactly(handshake.BYTES)
                given = await reader.readexactly(handshake.BYTES)
        finally:
            if writer in self._unproved:
                self._unproved.remove(writer)
        if not handshake.proves(given, self._secret, handshake.RANK, challenges):
            return False
        writer.write(handshake.answer(self._secret, handshake.STORE, challenges))
        return True

    async def _answer(self, verb: bytes, *fields: bytes) -> list[bytes]:
        """Carry out a request; `get` and `wait` are answered when all of their keys are there."""
        async with self._changed:
            match verb, *fields:
                case b"set", key, value:
                    self._values[key] = value
                    self._changed.notify_all()
                    return []
                case b"add", key, amount:
                    self._values[key] = str(int(self._values.get(key, b"0")) + int(amount)).encode()
                    self._changed.notify_all()
                    return [self._values[key]]
                case b"get", key:
                    await self._changed.wait_for(lambda: key in self._values)
                    return [self._values[key]]
                case b"wait", *keys:
                    await self._changed.wait_for(lambda: all(key in self._values for key in keys))
                    return []
                case b"check", *keys:
                    return [b"yes" if all(key in self._values for key in keys) else b"no"]
                case b"delete", key:
                    return [b"no" if self._values.pop(key, None) is None else b"yes"]
                case b"count", *_:
                    return [str(len(self._values)).encode()]
        raise EOFError(f"a rank of another version asks for {verb!r}")
