"""A module that is no method is refused with one sentence, and leaves nothing behind in the process."""

import sys

import pytest

from thinwire import plugins
from thinwire.base import torch_settings
from thinwire.base.errors import UserError

NO_CLASS = r"it must define a class Method\(thinwire.Method\)"
NO_PARTS = r"its provenance must be a tuple of thinwire\.Part"
METHOD = "import thinwire\nclass Method(thinwire.Method):\n    "
BASE = "import thinwire\nclass Base(thinwire.Method):\n    {}\nclass Method(Base): ..."
LIMIT = f"{METHOD}equals_ssgd = [thinwire.InTheLimit({{}})]"
FOR_ALL = f"import torch\n{{}}\n{METHOD}pass"
WRONG = [
    ("def (", "line 1: SyntaxError"),
    ("\n\nimport nothing_of_this_name", "line 3: ModuleNotFoundError"),
    ("\n1 / 0", "line 2: ZeroDivisionError"),
    ("import sys\nsys.exit(3)", "line 2: it ends the process that imports it: do"),
    ("raise SystemExit('enough')", "line 1: it ends the process that imports it: do"),
    ("x = 1", NO_CLASS),
    ("class Method: ...", NO_CLASS),
    ("Method = 3", NO_CLASS),
    ("from thinwire import Method", NO_CLASS),
    (f"{METHOD}class Config:\n        x: int = 1", "its Config must be a @dataclass"),
    (
        f"from __future__ import annotations\nfrom dataclasses import dataclass\n{METHOD}@dataclass\n"
        "    class Config:\n        x: Annotated[int, 1] = 1",
        "py: NameError: name 'Annotated' is not defined",
    ),
    # The engine reads some of it without running the code.
    (BASE.format("tunes = {'a': (1, 2)}"), "tunes must be"),
    (f"{METHOD}pass\nMethod.ablations = [{{}}]", "ablations must be assigned"),
    (
        f"{METHOD}prepares_for_any_epochs = True\n    if True:\n        prepares_for_any_epochs = False",
        "prepares_for_any_epochs must be",
    ),
    (BASE.format("@classmethod\n    def prepare(cls, config, job, folder): ..."), "prepare must be a def"),
    (f"{METHOD}provenance = []", NO_PARTS),
    (f"{METHOD}provenance = (('sums', 'ours', 'why'),)", NO_PARTS),
    (f"{METHOD}provenance = 'ours'", NO_PARTS),
    (
        LIMIT.format("{'bits': 32}, tolerance=0, reason='32 bits'"),
        r"line 3: .*\{'bits': 32\}\): its tolerance .* above 0, not 0",
    ),
    (
        LIMIT.format("{'bits': 32}, tolerance='0.1', reason='32 bits'"),
        "line 3: .*its tolerance must be a number above 0, not '0.1'",
    ),
    (
        LIMIT.format("{'bits': 32}, tolerance=float('nan'), reason='32 bits'"),
        "line 3: .*its tolerance .* not nan",
    ),
    (LIMIT.format("{'bits': 32}, tolerance=1e-3, reason=' '"), "line 3: .*it needs a reason why"),
    (LIMIT.format("[], tolerance=1e-3, reason='32 bits'"), "line 3: .*its options must be a dictionary"),
    # It changes torch for all.
    (
        FOR_ALL.format("torch.set_default_dtype(torch.float64)"),
        r"default dtype from torch\.float32 to torch\.float64",
    ),
    (FOR_ALL.format("torch.set_default_device('meta')"), "default device from cpu to meta"),
    (FOR_ALL.format("torch.set_num_threads(torch.get_num_threads() + 1)"), "number of threads"),
    (FOR_ALL.format("torch.set_grad_enabled(False)"), "grad mode from True to False"),
    (FOR_ALL.format("torch.set_autocast_enabled('cpu', True)"), "autocast on CPUs"),
    (FOR_ALL.format("torch.set_deterministic_debug_mode('warn'); 1 / 0"), "line 2: ZeroDivisionError"),
    (
        FOR_ALL.format("torch.set_float32_matmul_precision('medium')"),
        "float32 matmul precision from highest to medium",
    ),
    (FOR_ALL.format("torch.backends.cudnn.benchmark = True"), "cudnn.benchmark"),
]


@pytest.mark.parametrize(("source", "words"), WRONG)
def test_a_module_that_is_no_method_is_one_sentence(tmp_path, source, words):
    path = tmp_path / "methods/bad_for_a_test.py"
    path.parent.mkdir()
    path.write_text(f"{source}\n")
    plugin, before = plugins.find("method", tmp_path)["bad_for_a_test"], torch_settings.read()
    with pytest.raises(plugins.PluginError, match=words) as caught:
        plugin.load()
    assert str(path) in str(caught.value)
    assert f"thinwire_methods.{plugin.name}" not in sys.modules
    assert torch_settings.read() == before


def test_two_modules_have_one_name(tmp_path):
    (tmp_path / "methods" / "x").mkdir(parents=True)
    (tmp_path / "methods" / "x.py").write_text("")
    (tmp_path / "methods" / "x" / "__init__.py").write_text("")
    with pytest.raises(UserError, match=r"two method modules have the name x.*rename"):
        plugins.find("method", root=tmp_path)
