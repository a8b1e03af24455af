"""All checks of the contract, by name."""

from tests.contract import test_channels, test_contract

CHECKS = {
    name: check
    for module in (test_channels, test_contract)
    for name, check in vars(module).items()
    if name.startswith("test_")
}
