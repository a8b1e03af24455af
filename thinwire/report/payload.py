"""The payload of runs, together with that of their preparations."""

import pandas as pd


def with_megabytes(curves: pd.DataFrame) -> pd.DataFrame:
    """Add `megabytes`: what a worker has pushed and pulled so far, with its preparation, in 10^6 bytes."""
    pushed_and_pulled = curves.payload_push_bytes + curves.payload_pull_bytes
    return curves.assign(megabytes=(pushed_and_pulled + curves.preparation_payload_bytes) / 1e6)


def preparation_note(curves: pd.DataFrame) -> list[str]:
    """Phrases that say which methods have a preparation."""
    prepared = dict.fromkeys(curves.method[curves.preparation_payload_bytes > 0])
    return (
        [f"the preparation of {', '.join(prepared)} is counted in bytes, but not in epochs"]
        if prepared
        else []
    )
