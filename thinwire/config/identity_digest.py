"""The digest of what identifies a cell, a preparation or a block."""

import hashlib
import json
from typing import Any


def digest(identity: Any) -> str:
    """The first sixteen hexadecimal digits of the SHA-256 of an identity."""
    text = json.dumps(identity, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
