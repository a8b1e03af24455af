"""What training costs on GPUs: the formula, an estimate by hand, and the sentences about it."""

from dataclasses import replace

import numpy as np
import pytest

from thinwire import plugins
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.cli.arguments import parser
from thinwire.cli.plugins_and_suites import cells_main
from thinwire.config.expand import cell, cells
from thinwire.config.hardware import load_accelerator
from thinwire.config.trials import finalists_path
from thinwire.pipeline import overview
from thinwire.pipeline.snakefile import Call
from thinwire.simulation.cost import START_SECONDS, Cost, cost_of, devices_by_name
from thinwire.train.result_files import data_folder

CELL = cell("demo", "digits/cnn/ssgd/w4/seed0")
IMAGES, STEPS = 1258, 12 * (1258 // 64)
# Two operations for each product: 3x3 filters on 8x8 and 4x4 pixels, and a linear layer after 2x2 pixels.
FORWARD_FLOPS = 2 * (64 * 9 * 32 + 16 * 9 * 32 * 64 + 2 * 2 * 64 * 10)


@pytest.fixture
def results(tmp_path):
    folder = data_folder(tmp_path, "digits")
    folder.mkdir(parents=True)
    np.save(folder / "train_labels.npy", np.zeros(IMAGES, np.int64))
    return tmp_path


def a_gpu(flops):
    """A GPU whose memory and host take no time."""
    memory = {"memory_gigabytes_per_second": 1e9, "operation_seconds": 1e-12, "pass_operation_seconds": 1e-12}
    speed = {"convolution_flops_per_second": flops, "product_flops_per_second": flops}
    device = load_accelerator("a100_fp32").model_copy(update=memory | speed)
    return lambda cell: device


def seconds_a_step(cell, flops, results):
    return (cost_of([cell], a_gpu(flops), results).hours * 3600 - START_SECONDS) / STEPS


def test_a_step_is_the_passes_on_the_batch_of_a_worker_and_workers_in_one_process_take_turns(results):
    # 64 images for all four workers. Nothing wants the gradient of the images.
    passes = 3 * FORWARD_FLOPS - 2 * 64 * 9 * 32
    assert seconds_a_step(CELL, 1e6, results) == pytest.approx(64 * passes / 1e6)


def test_processes_have_a_gpu_each_and_half_of_an_exchange_between_nodes(results):
    on_one = replace(CELL, transport="processes")
    on_two = replace(on_one, nodes=2)
    in_turns, alone, apart = (seconds_a_step(each, 1e6, results) for each in (CELL, on_one, on_two))
    assert alone == pytest.approx(in_turns / 4)
    parameters = 9 * 32 + 32 + 9 * 32 * 64 + 64 + 256 * 10 + 10
    assert apart - alone == pytest.approx(0.5 * 2 * 3 / 4 * 4 * parameters / 12.5e9, rel=1e-3)
    for one, gpus in ((on_two, 4), (CELL, 1)):
        cost = cost_of([one], a_gpu(1e6), results)
        assert cost.gpu_hours == pytest.approx(gpus * cost.hours)


def test_the_methods_of_a_block_are_one_job_and_the_longest_is_named(results):
    block = [one for one in cells("demo") if one.block == CELL.block]
    of_block, of_cell = (cost_of(each, a_gpu(1e9), results) for each in (block, [CELL]))
    assert (of_block.jobs, of_block.longest) == (1, f"demo/{CELL.block}")
    assert of_block.longest_hours == pytest.approx(len(block) * of_cell.hours)


# GPU hours of 12 methods and 5 seeds with 4, 8 and 16 workers, estimated by hand for an A100 in fp32: 3 to 5
# ms of the host a step, and 20 s for each start. For ImageNet, 44 hours are subtracted, in which images were
# augmented one by one.
BY_HAND = {
    ("cifar10", "resnet18"): 120 / 2,
    ("cifar10", "vgg16"): 137 / 2,
    ("cifar10", "alexnet"): 126 / 2,
    ("imagenet_mini", "resnet18"): 114 - 44,
    ("imagenet_mini", "vgg16"): 485 - 44,
    ("imagenet_mini", "alexnet"): 203 - 44,
}


@pytest.mark.parametrize(("dataset", "model"), BY_HAND)
def test_an_estimate_by_hand_is_met_within_a_factor_of_one_and_a_half(dataset, model, tmp_path):
    first = cell("paper/accuracy", f"{dataset}/{model}/ssgd/w8n2/seed0")
    recipe = first.recipe.model_copy(update={"batch": 32})
    network = replace(
        first.model, options=first.model.options | ({"stem": "imagenet"} if model == "resnet18" else {})
    )
    sizes = [
        replace(first, model=network, recipe=recipe, transport="processes", workers=4 * nodes, nodes=nodes)
        for nodes in (1, 2, 4)
    ]
    fp32 = load_accelerator("a100_fp32")
    estimate = 12 * 5 * cost_of(sizes, lambda cell: fp32, tmp_path).gpu_hours
    assert 1 / 1.5 < estimate / BY_HAND[dataset, model] < 1.5


def test_without_the_data_the_number_of_images_must_be_stated(tmp_path, monkeypatch):
    assert cost_of([CELL], a_gpu(1e9), tmp_path).gpu_hours > 0
    monkeypatch.setattr(plugins.get("dataset", "digits").load(), "training_inputs", lambda self: None)
    with pytest.raises(UserError, match=r"digits does not state how many .* prepare it with"):
        cost_of([CELL], a_gpu(1e9), tmp_path)


def test_a_gpu_is_described_for_each_precision():
    chosen = devices_by_name("a100")
    for precision in ("fp32", "tf32", "bf16"):
        recipe = CELL.recipe.model_copy(update={"precision": precision})
        assert chosen(replace(CELL, recipe=recipe)) == load_accelerator(f"a100_{precision}")
    assert devices_by_name("v100_fp32")(CELL) == load_accelerator("v100_fp32")
    with pytest.raises(UserError, match="there is no accelerator 'a10_fp32'"):
        devices_by_name("a10")(CELL)


def test_the_command_names_the_device_the_longest_job_and_what_is_left_out(results, capsys):
    words = ["cells", "demo", "--cost", "a100_tf32", "--results", str(results)]
    assert cells_main(parser().parse_args([*words, "--only", "methods=ssgd", "workers=w4"])) == 0
    first, longest, left_out, *errors = capsys.readouterr().out.splitlines()
    assert first.startswith("3 cells in 3 jobs: ")
    assert longest.startswith("The longest job is demo/digits/cnn/w4/seed")
    assert "evaluation" in left_out
    assert errors[1].startswith("  NVIDIA A100 80 GB (SXM), TF32, channels_last: ")
    assert errors[-1].startswith("a100_tf32 is of tf32, and the recipe of fp32: these are")


def test_finals_cost_what_the_best_trials_cost_as_soon_as_they_are_known(results, capsys):
    words = ["cells", "tuning/claims/daso_digits/finals", "--cost", "a100", "--results", str(results)]
    cells_main(parser().parse_args(words))
    first, counted, *_ = capsys.readouterr().out.splitlines()
    every = cells("tuning/claims/daso_digits/finals")
    assert first == "The best trials are not known yet, so this counts all:"
    assert counted.startswith(f"{len(every)} cells")
    best = every[0].method.label
    digests.write_json(finalists_path(results, "claims/daso_digits"), {cell.place: [best] for cell in every})
    cells_main(parser().parse_args(words))
    own = [cell for cell in every if cell.method.label == best]
    assert capsys.readouterr().out.startswith(f"{len(own)} cells")


def test_a_dry_run_on_a_cluster_says_what_each_suite_on_gpus_costs(capsys):
    call = Call(defaults={"runtime": "1 * attempt"})
    overview.print_overview([CELL, *cells("paper/time")[:1], *cells("claims/hsgd")[:1]], call)
    printed = capsys.readouterr().err
    assert printed.count("cost: about") == 2  # of the demo, on CPUs, there is none
    assert "GPU hours of a100" in printed
    assert printed.splitlines()[-1].startswith("all suites on GPUs: 2 jobs, ")


SIX = ["2 attempts, the first of 6 hours and the last of 12 hours", "`retries` has to be 1 "]
TWO = ["3 attempts, the first of 2 hours and the last of 3 hours"]


@pytest.mark.parametrize(
    ("minutes", "said"),
    [("360 * attempt", SIX), ("min(120 * attempt, 180)", TWO), ("600", []), ("2d", []), ("0", [])],
)
def test_a_job_that_is_longer_than_its_first_attempt_is_told(minutes, said):
    lines = overview.about_cost(Cost(16.0, 2, 8.0, 7.7, "suite/a/b/w8/seed0"), "a100", minutes)
    assert len(lines) == 1 + bool(said)
    assert "16 GPU hours of a100" in lines[0]
    assert "a/b/w8/seed0, 7.7 hours" in lines[0]
    assert all(words in lines[1] for words in said)
