"""What all tests share."""

import pytest
import torch

from thinwire.train.deterministic import deterministic


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--method-file", help="hold this one file to the contract, not methods/")


@pytest.fixture(autouse=True, scope="session")
def _same_bits_every_time() -> None:
    deterministic(torch.device("cpu"))
