"""What a parent imports for its runs: PyTorch's compiler and pandas cost seconds, and no run needs them."""

import subprocess
import sys

PROGRAM = """
import sys
from thinwire.launch.imports_for_runs import import_for_runs
import_for_runs()
print([name in sys.modules for name in ("torch", "pyarrow.parquet", "pandas", "torch._dynamo")])
import pandas
print(pandas.DataFrame({"a": [1]}).a.sum())
"""


def test_it_leaves_out_what_no_run_needs_and_plug_ins_may_still_import_it():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["[True, True, False, False]", "1"]


def test_laying_out_a_data_set_needs_no_torch():
    program = "import sys, thinwire.cli.data, thinwire; thinwire.Dataset; print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
