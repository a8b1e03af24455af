"""Framing: a list of byte strings as one message. Lengths precede the message and each string."""

import struct

_LENGTH = struct.Struct(">I")
HEADER = _LENGTH.size


def pack(fields: list[bytes]) -> bytes:
    """Return the message, with its header."""
    body = b"".join(_LENGTH.pack(len(field)) + field for field in fields)
    return _LENGTH.pack(len(body)) + body


def body_bytes(header: bytes) -> int:
    """Return how many bytes follow a header."""
    return int(_LENGTH.unpack(header)[0])


def unpack(body: bytes) -> list[bytes]:
    """Return the strings in the body of a message."""
    fields, at = [], 0
    while at < len(body):
        end = at + HEADER + body_bytes(body[at : at + HEADER])
        fields.append(body[at + HEADER : end])
        at = end
    return fields
