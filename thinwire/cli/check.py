"""`thinwire check [FILE]`: runs the contract suite, tests/contract/, on methods."""

import subprocess
import sys
from argparse import Namespace

from thinwire import plugins
from thinwire.errors import UserError
from thinwire.plugins import ROOT


def main(arguments: Namespace) -> int:
    """Run the contract suite on the file of one method, or on all methods in `methods/`."""
    suites = [ROOT / "tests" / "contract" / name for name in ("test_contract.py", "test_on_processes.py")]
    command = [sys.executable, "-m", "pytest", *map(str, suites), "-p", "no:cacheprovider"]
    what = "methods/"
    if arguments.file is not None:
        path = arguments.file
        if (path / "__init__.py").is_file():
            path = path / "__init__.py"
        if not path.is_file():
            methods = plugins.find("method")
            if str(path) not in methods:
                raise UserError(f"{path}: there is no such file, and no method of this name")
            path = methods[str(path)].path
        # If it cannot be imported, this says why in one sentence.
        plugins.load_file("method", path.resolve(), "thinwire_checked")
        command.append(f"--method-file={path.resolve()}")
        what = plugins.show(path)
    command += ["-rs", "--tb=short", "--maxfail=3"]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    print(f"{what}: {'keeps the contract' if code == 0 else 'breaks the contract, see above'}")
    return int(code != 0)
