"""Whether a file that was found or downloaded is the official one, by its checksum."""

from thinwire.errors import UserError


def require_official(found: str, expected: str, subject: str, about: str) -> None:
    """The checksum is the published one.

    Args:
        found: the file's, in hexadecimal digits.
        expected: the published one.
        subject: the file, and what it should be: "FILE is not ...".
        about: which checksum of what it is.

    Raises:
        UserError: it is not; the sentence says what to do.
    """
    if found != expected:
        raise UserError(f"{subject}: {about} is {found}, expected {expected}; delete it and fetch it again")
