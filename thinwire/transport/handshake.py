"""Handshake: two processes prove to each other, on a new connection, that both know the run's secret.

Each side sends random bytes, its *challenge*, and answers with an HMAC over both challenges and its own role.
So the secret itself is never sent. An intercepted answer is useless on another connection, and neither side
can return the other's answer as its own.
"""

import hmac
import secrets

BYTES = 32  # length of a challenge, of an answer and of a secret
# The two roles, which are part of the answers.
RANK, STORE = b"rank", b"store"


def challenge() -> bytes:
    """Return random bytes for the other side to answer."""
    return secrets.token_bytes(BYTES)


def answer(secret: bytes, side: bytes, challenges: bytes) -> bytes:
    """Return the proof that `side` knows the secret, for whoever chose one of the challenges."""
    return hmac.digest(secret, side + challenges, "sha256")


def proves(given: bytes, secret: bytes, side: bytes, challenges: bytes) -> bool:
    """Does this answer prove that `side` knows the secret?"""
    return hmac.compare_digest(given, answer(secret, side, challenges))
