"""`thinwire check [FILE]`."""

import subprocess
import sys
from argparse import Namespace

from thinwire.errors import UserError
from thinwire.plugins import ROOT


def main(arguments: Namespace) -> int:
    """Run the contract suite on one method's file, or on all in `methods/`."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(ROOT / "tests" / "contract" / "test_contract.py"),
        "-p",
        "no:cacheprovider",
    ]
    what = "methods/"
    if arguments.file is not None:
        if not arguments.file.is_file():
            raise UserError(f"{arguments.file}: there is no such file")
        command.append(f"--method-file={arguments.file.resolve()}")
        what = str(arguments.file)
    code = subprocess.run([*command, "-rs", "--tb=short"], cwd=ROOT, check=False).returncode
    print(f"{what}: {'keeps the contract' if code == 0 else 'breaks the contract, see above'}")
    return int(code != 0)
