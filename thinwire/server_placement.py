"""Which worker hosts the parameter server of a key."""


def hosting_rank(key: int | str, size: int) -> int:
    """The rank of the worker that hosts the server of `key`, in a channel of `size` workers."""
    return key % size if isinstance(key, int) else sum(key.encode()) % size
