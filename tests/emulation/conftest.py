"""What tests of emulated clusters share."""

import pytest

from thinwire.emulation.network import Network
from thinwire.errors import UserError


@pytest.fixture(scope="session")
def emulable():
    """Skip the tests where no network can be emulated."""
    try:
        Network(2, 1e9).close()
    except UserError as error:
        pytest.skip(str(error))
