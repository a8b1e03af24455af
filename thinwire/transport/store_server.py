"""The notes of a run, which rank 0 keeps for all ranks, in a thread of its own.

torch has such a store, but it serves everybody who can reach its port: it lists its keys and lets anybody
change them. This one serves only who proves in the first words of a connection that he knows the run's
secret. From others it reads a fixed number of bytes, and for a few seconds.
"""

import asyncio
import socket
from collections.abc import Sequence
from threading import Thread

from thinwire.transport import framing, handshake

# A rank that knows the secret has proved it within so many seconds, also on a slow machine.
PROVING_SECONDS = 10.0
# Of connections that have not proved anything the oldest one goes when there are more: they must not use up
# the files that this process may open.
MOST_UNPROVED = 64


class StoreServer:
    """Keeps keys and values, and serves them on sockets that are listening already."""

    def __init__(self, listeners: Sequence[socket.socket], secret: bytes) -> None:
        self._secret = secret
        self._values: dict[bytes, bytes] = {}
        self._unproved: list[asyncio.StreamWriter] = []
        self._changed = asyncio.Condition()
        serving = self._serve_all(listeners)
        Thread(target=asyncio.run, args=(serving,), name="store", daemon=True).start()

    async def _serve_all(self, listeners: Sequence[socket.socket]) -> None:
        servers = [await asyncio.start_server(self._connected, sock=one) for one in listeners]
        await asyncio.gather(*(server.serve_forever() for server in servers))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end; whoever breaks it off concerns nobody else."""
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
        """Carry out a request; what waits for keys answers when all of them are there."""
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
