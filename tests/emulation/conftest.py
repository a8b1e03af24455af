"""What tests of emulated clusters share."""

import pytest

from tests.processes import apart
from thinwire.base.errors import UserError
from thinwire.emulation.network import Network


def why_not():
    """Why no network can be emulated here; None if one can."""
    try:
        Network(2, 1e9).close()
    except UserError as error:
        return str(error)


@pytest.fixture(scope="session")
def emulable():
    """Skip the tests where no network can be emulated."""
    if reason := apart(why_not):
        pytest.skip(reason)
