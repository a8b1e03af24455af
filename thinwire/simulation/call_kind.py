"""Kinds of calls: calls of one kind go the same way through the software, so they have the same costs."""


def kind_of_call(verb: str, ragged: bool) -> str:
    """The verb; a gather of ragged payloads is a kind of its own, because it goes point to point."""
    return "ragged gather" if verb == "gather" and ragged else verb
