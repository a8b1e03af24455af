"""The days that the workers of a suite compute on a device that a profile describes."""

import numpy as np
import pytest

from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.cli import inspect as list_cells
from thinwire.cli.main import _parser
from thinwire.config.clusters import Device
from thinwire.config.expand import cell, cells
from thinwire.simulation.compute import worker_days
from thinwire.train.result_files import data_folder

CELL = cell("demo", "digits/cnn/ssgd/w4/seed0")
IMAGES, STEPS = 1258, 12 * (1258 // 64)
# Two operations for each product: 3x3 filters on 8x8 and 4x4 pixels, and a linear layer after 2x2 pixels.
FORWARD_FLOPS = 2 * (64 * 9 * 32 + 16 * 9 * 32 * 64 + 2 * 2 * 64 * 10)


def device(flops_per_second, launch_seconds):
    return Device(
        title="a device",
        flops_per_second=flops_per_second,
        memory_gigabytes_per_second=1.0,
        launch_seconds=launch_seconds,
        error="none",
    )


@pytest.fixture
def results(tmp_path):
    folder = data_folder(tmp_path, "digits")
    folder.mkdir(parents=True)
    np.save(folder / "train_labels.npy", np.zeros(IMAGES, np.int64))
    return tmp_path


def test_a_backward_pass_costs_two_forward_passes(results):
    days = worker_days([CELL], device(1e9, 0.0), results)
    assert days * 86_400 == pytest.approx(STEPS * 64 * 3 * FORWARD_FLOPS / 1e9)


def test_a_layer_takes_at_least_a_launch_on_each_worker(results):
    days = worker_days([CELL], device(1e18, 0.5), results)
    assert days * 86_400 == pytest.approx(STEPS * 4 * 3 * 2 * 0.5)


def test_without_the_data_the_number_of_images_must_be_stated(tmp_path, monkeypatch):
    assert worker_days([CELL], device(1e9, 0.0), tmp_path) > 0
    monkeypatch.setattr(plugins.get("dataset", "digits").load(), "training_images", lambda self: None)
    with pytest.raises(UserError, match=r"digits does not state how many .* prepare it with"):
        worker_days([CELL], device(1e9, 0.0), tmp_path)
    imagenet = cells("claims/daso")[:1]
    assert worker_days(imagenet, device(23e12, 0.0), tmp_path) > 0


def test_the_command_names_the_device_and_what_is_left_out(results, capsys):
    words = ["cells", "demo", "--cost", "a100_tf32", "--results", str(results)]
    arguments = _parser().parse_args([*words, "--only", "methods=ssgd", "workers=w4"])
    assert list_cells.cells_main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("3 cells: ")
    assert "days of one NVIDIA A100 80 GB, TF32" in printed
    assert "no communication" in printed
