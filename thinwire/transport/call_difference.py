"""Finds the call in which workers differ; needs no torch."""


def first_difference(logs: dict[int, dict[str, str]]) -> str | None:
    """Describe the first call in which workers differ; None if there is none.

    A worker that has not made as many calls yet does not count as different.

    Args:
        logs: what `CallLog.last` returned on each worker, by rank.
    """
    for number in sorted({number for log in logs.values() for number in log}, key=int):
        calls = {rank: log[number] for rank, log in logs.items() if number in log}
        first = next(iter(calls))
        for rank, call in calls.items():
            if call != calls[first]:
                return f"call {number}: rank {first} calls {calls[first]} and rank {rank} calls {call}"
    return None
