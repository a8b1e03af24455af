"""Invented results of the demo, with every table that the page shows."""

from pathlib import Path

import pandas as pd

from tests import simulated, sound
from tests.sound import cells
from thinwire.base.learning import CLASSIFICATION
from thinwire.report import report_files
from thinwire.report.plan_table import PLACE
from thinwire.report.rows import collect, times
from thinwire.report.rows.quantities import SETTING, summarise
from thinwire.report.rows.to_target import steps_to_target, to_target
from thinwire.simulation import simulated_file
from thinwire.simulation.simulated_file import with_speed_up

EPOCHS = 3
RATES = (1.0, 10.0, 100.0)
# Of each method the seconds of a step at these rates: `top_k` is faster than `ssgd` below about 10 Gbit/s.
MILLISECONDS = {"ssgd": (100.0, 20.0, 10.0), "ssgd_bf16": (90.0, 30.0, 20.0), "top_k": (45.0, 20.0, 20.0)}
METHODS = ("ssgd", "ssgd_bf16", "top_k")
# Of times without data: workers and nodes, links in Gbit/s with their latencies, and for each method the
# megabytes between nodes and the milliseconds of computing.
PLACES = ((8, 2), (16, 4), (16, 2))
LINKS = ((1.0, 1e-4), (1.0, 0.025), (100.0, 5e-6), (100.0, 0.025))
OF_STEP = {"ssgd": (40.0, 10.0), "ssgd_bf16": (20.0, 10.0), "top_k": (2.0, 30.0), "sparse_loco": (0.5, 10.0)}


def publish(results: Path, patch: object) -> None:
    """Publish records of three methods, and make their tables. One run has failed."""
    grid = [cell for cell in cells("demo") if cell.method.label in METHODS]
    patch.setattr(collect, "cells", lambda suite: grid)  # type: ignore[attr-defined]
    for cell in grid[:-1]:
        sound.publish(results, cell)
    bad = {"status": "failed", "reason": "</script><b>it's <broken>", "result": None}
    sound.publish(results, grid[-1], epochs=0, **bad)
    rows = simulated.rows(*_simulated())
    simulated_file.write(rows, results, "demo")
    collect.collect(["demo"], results)
    runs = collect.read_summary(results, "demo")
    folder = results / "tables" / "demo"
    table = summarise(runs, ["ssgd", "ssgd_bf16"], CLASSIFICATION)
    folder.mkdir(parents=True)
    table.to_csv(folder / "summary.csv", index=False)
    curves = collect.read_curves(results, "demo", CLASSIFICATION)
    needed = to_target(runs, curves, "ssgd", CLASSIFICATION)
    of_times = times.times(rows, runs, ["ssgd", "ssgd_bf16"], steps_to_target(needed))
    of_times[times.COLUMNS].to_csv(folder / "times.csv", index=False)
    report_files.write_digests(results, "demo")


def _simulated() -> list[dict[str, object]]:
    made = []
    for method, steps in MILLISECONDS.items():
        for rate, milliseconds, best in zip(RATES, steps, MILLISECONDS["ssgd"]):
            better = min(best, MILLISECONDS["ssgd_bf16"][RATES.index(rate)])
            more = {"rate_gbit_per_second": rate, "own_rate": rate == 1.0, "speed_up": better / milliseconds}
            made.append(simulated.row(method, milliseconds, **more))
    return made


def compare(results: Path) -> None:
    """Write `comparisons.csv` and `to_target.csv`, with words that no other table has."""
    rows = pd.read_csv(results / "tables/demo/summary.csv")[[*SETTING, "method", "kind"]]
    others = rows[rows.method != "ssgd"]
    numbers = {"gain_mean": -0.5, "gain_low": -1.0, "gain_high": 0.25}
    about = {"against": "ssgd", "n": 3, "margin": 0.3, "detectable": 1.5}
    words = {"verdict": "inconclusive", "words": "three pairs say nothing"}
    others.assign(**numbers, **about, **words).to_csv(results / "tables/demo/comparisons.csv", index=False)
    reached = {"target_score": 97.0, "epochs_median": 2.0, "steps_median": 40.0, "train_seconds_median": None}
    rows.assign(**reached).to_csv(results / "tables/demo/to_target.csv", index=False)
    report_files.write_digests(results, "demo")


def claim(results: Path) -> None:
    """Write `claims.csv` with claims, of which one is about a reconstructed method."""
    place = {"dataset": "digits", "model": "cnn", "workers": 8, "nodes": 2, "cluster": None}
    about = {"suite": "demo", "publication": "MP2", "method": "top_k", "against": "ssgd", "unit": "percent"}
    held = about | place | {"id": "002-a", "claim": "It sends less."}
    held |= {"reconstructed": True, "post_hoc": False}
    held |= {"scope": "mechanism", "kind": "inprocess", "n": 3, "estimate": 44.0, "low": 40.0, "high": 48.0}
    held |= {"verdict": "held", "reason": "counted", "says": "It sends 44 % less.", "margin": None}
    held |= {"metric": "payload"}
    simulated = held | {"kind": "simulated", "estimate": 60.0, "verdict": "not testable here"}
    number = held | {"id": "002-b", "claim": "It sends 50 % less.", "scope": "number", "margin": 50.0}
    contradicted = number | {"verdict": "contradicted", "reconstructed": False}
    other = number | {"workers": 4, "nodes": 1, "estimate": 120.0, "low": 110.0, "high": 130.0}
    no_place = dict.fromkeys(["n", "estimate", "low", "high", *place])
    not_run = held | no_place | {"id": "003-a", "publication": "HSGD", "verdict": "not decided"}
    untested = not_run | {"id": "009-z", "suite": None, "verdict": "not testable here"}
    nothing = held | {"id": "002-d", "claim": "It helps.", "verdict": "no effect", "reconstructed": False}
    unclear = nothing | {"workers": 4, "nodes": 1, "verdict": "inconclusive"}
    emulated = {"id": "002-e", "claim": "It saves time.", "kind": "emulated", "metric": "seconds_of_a_step"}
    seconds = held | emulated | {"post_hoc": True}
    no_seconds = seconds | {"workers": 4, "nodes": 1, "verdict": "no effect", "post_hoc": False}
    rows = [untested, not_run, contradicted, other, held, simulated, unclear, nothing, seconds, no_seconds]
    pd.DataFrame(rows).to_csv(results / "claims.csv", index=False)
    (results / "claims.md").write_text("the same")
    report_files.write_of_claims(results)


def time_without_data(results: Path) -> pd.DataFrame:
    """Write times of a suite on GPUs, and return them. `sparse_loco` has none on two nodes of eight."""
    rows = []
    for workers, nodes in PLACES:
        for rate, latency in LINKS:
            for method, (megabytes, computing) in OF_STEP.items():
                if method == "sparse_loco" and (workers, nodes) == (16, 2):
                    continue
                link = {
                    "workers": workers,
                    "nodes": nodes,
                    "rate_gbit_per_second": rate,
                    "latency_seconds": latency,
                }
                seconds = computing / 1e3 + megabytes / 125 / rate + latency
                sent = {"between_nodes_bytes": 1e6 * megabytes, "compute_seconds": computing / 1e3}
                rows.append({**link, "method": method, "step_seconds": seconds, **sent})
    made = pd.DataFrame(rows).assign(
        suite="times/cifar10",
        dataset="cifar10",
        model="resnet18",
        kind="simulated",
        cluster="infiniband_1600g_8gpus",
        accelerator="a100_bf16",
    )
    made = with_speed_up(made, ["ssgd", "ssgd_bf16"], PLACE)
    path = simulated_file.path_of_times(results, "times/cifar10")
    path.parent.mkdir(parents=True)
    made.to_csv(path, index=False)
    return made
