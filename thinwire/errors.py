"""What went wrong, for the person who can mend it."""


class UserError(Exception):
    """Bad input. The message is one clear sentence: what is wrong, where, and what to do."""


class MethodError(UserError):
    """A method broke the contract: its module must be mended."""
