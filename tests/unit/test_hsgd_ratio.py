"""The ratio between the ends of HSGD's ladder, over computing and links."""

import pandas as pd
import pytest

from thinwire.config import clusters
from thinwire.report import simulated_tables as shown
from thinwire.simulation import questions, without_data
from thinwire.simulation.questions import RATIO_CLUSTER, ratios
from thinwire.simulation.without_data import MeanStep

DESCRIBED = clusters.load_cluster(RATIO_CLUSTER)
COMPUTE = 0.25


class Rung:
    """Computes, and then sends these bytes for each node but one."""

    def __init__(self, sent):
        self.sent = sent

    def on(self, cluster, nodes):
        return MeanStep(COMPUTE + self._waits(cluster, nodes), COMPUTE)

    def at_paces(self, cluster, nodes, paces):
        return COMPUTE * paces + self._waits(cluster, nodes)

    def _waits(self, cluster, nodes):
        return self.sent * (nodes - 1) / cluster.link.rate_bytes_per_second


def table_of(**options):
    return pd.DataFrame(ratios(Rung(1e9), Rung(1e7), DESCRIBED, **options))


def test_the_ratio_by_hand_of_every_number_of_nodes_rate_and_time_of_computing():
    """At 8 Gbit/s the lowest rung sends for a second to each node but one, the highest for a hundredth."""
    rows = table_of(nodes=(2, 4), rates=(0.8, 8.0), compute=(0.5, 1.0))
    for row in rows.itertuples():
        sends = (row.nodes - 1) * 8 / row.rate_gbit_per_second
        lowest, highest = row.compute_seconds + sends, row.compute_seconds + sends / 100
        assert (row.lowest_rung_seconds, row.ratio) == pytest.approx((lowest, lowest / highest))
    assert len(rows) == 8


def test_the_rate_of_the_cluster_itself_is_possible():
    own = DESCRIBED.link.rate_bits_per_second / 1e9
    assert list(table_of(nodes=(2,), rates=(own,), compute=(1.0,)).rate_gbit_per_second) == [own]


def test_a_ratio_that_passes_no_level_is_drawn_without_lines(tmp_path):
    rows = table_of(rates=(50.0, 100.0), compute=(10.0, 30.0), nodes=(2,))
    assert rows.ratio.max() < 2
    shown.write_hsgd_ratio(rows, tmp_path)
    assert (tmp_path / "figures/hsgd_ratio.png").exists()


def test_the_ends_of_the_ladder_have_the_network_of_the_other_suite(monkeypatch):
    made = []
    monkeypatch.setattr(without_data, "CellWithoutData", lambda cell, *_: made.append(cell))
    questions.ends_of_the_ladder(4)
    assert [cell.method.label for cell in made] == ["n0_naive", "n6_hsgd"]
    assert {(cell.model.label, cell.recipe.batch_per_worker(4)) for cell in made} == {("resnet50", 256)}
