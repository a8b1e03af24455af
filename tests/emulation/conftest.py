"""What tests of emulated clusters share."""

import pytest

from thinwire.base.errors import UserError
from thinwire.emulation.network import Network


@pytest.fixture(scope="session")
def emulable():
    """Skip the tests where no network can be emulated."""
    try:
        Network(2, 1e9).close()
    except UserError as error:
        pytest.skip(str(error))
