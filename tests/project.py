"""The names of what belongs to the project.

Tests that ask for more than the contract go over these. What else is in `methods/`, `models/` and `config/`
is your own. The contract suite checks your methods, and no other test asks anything of it.
"""

from pathlib import Path

import pytest

from thinwire import plugins
from thinwire.config import expand, suite, yaml_file
from thinwire.config.cell import Cell
from thinwire.config.suite_schema import Suite

METHODS = tuple(
    """
    daso demo_sgd des_loc dgc diloco dion ef21 gossip hsgd hylo local_sgd mp2 multi_step_delay one_bit_adam
    power_sgd ps_sgd qsgd quantised_all_reduce sign_sgd sparse_loco ssgd top_k wnn
    """.split()  # noqa: SIM905
)
MODELS = ("alexnet", "cnn", "lenet", "mp2_alexnet", "mp2_resnet", "mp2_vgg", "resnet", "vgg")
SUITES = tuple(
    """
    claims/daso claims/daso_digits claims/daso_emulated claims/daso_time
    claims/diloco claims/hsgd claims/hsgd_bytes claims/hsgd_digits claims/hsgd_ladder
    claims/hsgd_lars claims/hsgd_lars_digits
    claims/hylo claims/hylo_digits claims/hylo_fashion_mnist
    claims/mp2 claims/mp2_bytes claims/mp2_digits claims/mp2_fashion_mnist claims/mp2_seconds_emulated
    claims/multi_step_delay claims/multi_step_delay_digits claims/multi_step_delay_fashion_mnist
    claims/seconds_emulated
    demo laptop laptop_100m laptop_1g laptop_times
    length/epochs_12 length/epochs_24 length/epochs_6 length/images_60000
    paper/accuracy paper/accuracy_text paper/time paper/time_text
    rivals rivals_adamw
    sensitivity/hsgd_lars_digits sensitivity/hylo sensitivity/laptop_surprises
    text text_clients text_demo
    times/cifar10 times/daso times/hsgd times/hylo times/imagenet_mini times/mp2 times/multi_step_delay
    times/text
    tracks/v1 validation
    """.split()  # noqa: SIM905
)


def demo() -> list[Cell]:
    """The cells of the demo without those of methods that its file does not name."""
    named = suite.load("demo").methods
    return [cell for cell in expand.cells("demo") if cell.method.label in named]


def untuned(name: str) -> Suite:
    """The suite of this name as its file has it, without the recipes that its tuning has chosen."""
    return Suite.model_validate(yaml_file.mapping(suite.path_of(name), "", "") | {"tuned": None})


def add_method(folder: Path, patch: pytest.MonkeyPatch) -> str:
    """Write a method into a folder, and have it found beside those in `methods/`; returns its name."""
    path = folder / "newcomer.py"
    part = 'thinwire.Part("nothing is sent", "ours", "it came later")'
    path.write_text(
        f'"""No method."""\nimport thinwire\nclass Method(thinwire.Method):\n    provenance = ({part},)\n'
    )
    find = plugins.find

    def with_newcomer(kind: str, root: Path = plugins.ROOT) -> dict[str, plugins.Plugin]:
        added = {path.stem: plugins.Plugin(kind, path.stem, path)} if kind == "method" else {}
        return dict(sorted({**find(kind, root), **added}.items()))

    patch.setattr(plugins, "find", with_newcomer)
    return path.stem
