"""The pipeline simulates the methods of a suite that asks for it, those that were dropped in, too."""

import pandas as pd
import pytest

from tests import project as of_project
from tests.commands import succeeded
from tests.workflow.test_pipeline import TEN_LINES

pytestmark = pytest.mark.slow

ASKS = """
simulate:
  clusters: [ethernet_1g]
  rates_gbit_per_second: [1, 10]
  steps: 8
"""
NAMED = {"ssgd", "local_sgd", "ps_sgd"}
LEFT_OUT = sorted(set(of_project.METHODS) - NAMED)
METHODS = f"\n  '*':\n  ssgd: {{}}\nleave_out: [{', '.join(LEFT_OUT)}]"


@pytest.fixture(scope="module")
def made(project):
    project.suite("tiny", METHODS, epochs=1, more=ASKS)
    succeeded(project.snakemake())
    return project


def simulated(project):
    return pd.read_csv(project.folder / "results/simulated/tiny.csv")


def plan(project):
    answer = succeeded(project.snakemake("-n", "--quiet", "host"))
    return answer.stdout + answer.stderr


def test_a_suite_ends_with_simulated_times(made):
    times = simulated(made)
    assert set(times.method) == NAMED
    assert sorted(set(times.rate_gbit_per_second)) == [1, 10]
    table = pd.read_csv(made.folder / "results/tables/tiny/times.csv")
    assert set(table.kind) == {"simulated"}
    assert list(table.speed_up[table.method == "ssgd"]) == [1, 1]
    figures = {path.name for path in (made.folder / "results/figures/tiny").iterdir()}
    assert {"step_breakdown.png", "speed_up_simulated.pdf", "bandwidth.png"} <= figures
    assert "speed_up_over_workers.png" not in figures, "there is one number of workers"


def test_it_is_simulated_again_only_if_something_changed(made):
    assert "simulate" not in plan(made)
    path = "config/clusters/ethernet_1g.yaml"
    text = (made.folder / path).read_text()
    made.write(path, text.replace("20e-6", "30e-6"))
    planned = plan(made)
    assert "rule simulate" in planned
    assert "rule train_tiny" not in planned
    made.write(path, text)


def test_a_method_that_was_dropped_in_or_changed_has_its_speed_up(made):
    made.write("methods/third.py", TEN_LINES)
    assert made.snakemake().returncode == 0
    table = pd.read_csv(made.folder / "results/tables/tiny/times.csv")
    assert table[table.own_rate].set_index("method").speed_up["third"] > 0
    assert "simulate" not in plan(made)
    made.write("methods/third.py", TEN_LINES + "# another version\n")
    assert "rule simulate" in plan(made)


def test_a_method_that_fails_leaves_the_others_their_times(made):
    made.write("methods/third.py", TEN_LINES.replace("self.run.world.mean", "self.run.nowhere"))
    succeeded(made.snakemake())
    assert set(simulated(made).method) == NAMED
    log = (made.folder / "results/logs/simulate/tiny.txt").read_text()
    assert "third on ethernet_1g: left out, because" in log
