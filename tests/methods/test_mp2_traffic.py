"""Derives MP2's published 88.98 % from shapes alone, and computes it with both sides counted alike.

The authors' workers push the prefix as 64-bit numbers with 161 bytes of overhead. They compare it with the
whole model in 32 bits. `python -m tests.methods.test_mp2_traffic` writes the table in docs/ again.
"""

from importlib import import_module

import pytest

from thinwire import plugins
from thinwire.base.options import resolve
from thinwire.plugins import ROOT

plugins.get("method", "mp2").load()
split = import_module("thinwire_methods.mp2.layers").split
DOCUMENT = ROOT / "docs" / "mp2_traffic.md"
PUSH_OVERHEAD = 161  # bytes, of a pickled prefix
# A message with the whole model of VGG-15 has 18,892,513 bytes in the authors' code.
MODEL_OVERHEAD = 18_892_513 - 4 * 4_722_698

MODELS = {
    "VGG-15, 10 classes": ("mp2_vgg", {}, (3, 32, 32), 10),
    "VGG-15, 100 classes": ("mp2_vgg", {}, (3, 32, 32), 100),
    "ResNet-18": ("mp2_resnet", {"depth": 18}, (3, 32, 32), 10),
    "ResNet-34": ("mp2_resnet", {"depth": 34}, (3, 32, 32), 10),
    "ResNet-50": ("mp2_resnet", {"depth": 50}, (3, 32, 32), 10),
    "AlexNet": ("mp2_alexnet", {}, (3, 32, 32), 10),
    "LeNet, 28 pixels": ("lenet", {}, (1, 28, 28), 10),
}


def sizes(label):
    """The parameters of the model and of its prefix."""
    name, options, shape, classes = MODELS[label]
    model = plugins.get("model", name).load()
    made = model(resolve(model, options), shape, classes)
    pushed, _ = split(made, 2)
    return sum(p.numel() for p in made.parameters()), sum(p.tensor.numel() for layer in pushed for p in layer)


def as_published(whole, prefix):
    return 100 * (1 - (8 * prefix + PUSH_OVERHEAD) / (4 * whole + MODEL_OVERHEAD))


def table():
    """The rows with which the page in docs/ ends."""
    rows = []
    for label in MODELS:
        whole, prefix = sizes(label)
        push = 100 * (1 - prefix / whole)
        numbers = f"{as_published(whole, prefix):.2f} | {push:.1f} | 0.0 | {push / 2:.1f}"
        rows.append(f"| {label} | {whole:,} | {prefix:,} | {numbers} |")
    return "\n".join(rows) + "\n"


# The published figures, and how near the shapes come; only VGG-15's messages have a known overhead.
PUBLISHED = [
    ("VGG-15, 10 classes", 88.98, 0.005),
    ("VGG-15, 100 classes", 89.00, 0.02),
    ("ResNet-18", 88.17, 0.02),
    ("ResNet-34", 87.58, 0.02),
]


@pytest.mark.parametrize(("label", "published", "within"), PUBLISHED)
def test_the_published_figures_follow_from_the_shapes(label, published, within):
    assert as_published(*sizes(label)) == pytest.approx(published, abs=within)


def test_so_does_that_of_resnet_50_with_the_authors_prefix():
    whole, _ = sizes("ResNet-50")
    assert as_published(whole, 343_104) == pytest.approx(88.34, abs=0.02)


def test_counted_alike_it_is_94_5_of_the_push_and_47_2_of_the_total():
    whole, prefix = sizes("VGG-15, 10 classes")
    assert 100 * (1 - prefix / whole) == pytest.approx(94.5, abs=0.05)
    assert 100 * (1 - (prefix + whole) / (2 * whole)) == pytest.approx(47.2, abs=0.05)


def test_the_table_in_the_documents_is_this_one():
    assert DOCUMENT.read_text().endswith(f"--:|\n{table()}")


if __name__ == "__main__":
    before, _, _ = DOCUMENT.read_text().rpartition("--:|\n")
    DOCUMENT.write_text(f"{before}--:|\n{table()}")
