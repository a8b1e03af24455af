"""Epochs to a target beside those of a reference, with misses and with few runs."""

import math

import pandas as pd
import pytest

from thinwire.statistics.reference_convergence import Convergence, convergence

INF = math.inf
REFERENCE = [5, 6, 5, 4, 5, 6]


@pytest.mark.parametrize(
    ("epochs", "reference", "expected"),
    [
        ([3, 4, 3, 3, 3, 4], REFERENCE, Convergence.SUSPICIOUS),
        ([4, 5, 4, 3, 4, 5], REFERENCE, Convergence.SUSPICIOUS),  # one epoch fewer in every pair
        ([8, 9, 7, 7, 8, 9], REFERENCE, Convergence.LATE),
        ([5, 5, 6, 5, 4, 6], REFERENCE, Convergence.PLAUSIBLE),
        (REFERENCE, REFERENCE, Convergence.PLAUSIBLE),
        ([3, 3, 3, INF, 3, 3], REFERENCE, Convergence.LATE),
        ([3, 3, 3, INF, 3, 3], [5, INF, 5, 5, 5, 5], Convergence.CANNOT_BE_TOLD),
        ([3, 4, 3, 3], REFERENCE, Convergence.CANNOT_BE_TOLD),
    ],
)
def test_epochs_beside_those_of_the_reference(epochs, reference, expected):
    assert convergence(pd.Series(epochs), pd.Series(reference), 12) is expected


def test_a_miss_of_the_reference_counts_as_reached_in_the_last_epoch():
    reference = pd.Series([5, 5, 6, 5, 5, INF])
    assert convergence(pd.Series([4, 4, 5, 4, 4, 5]), reference, 6) is Convergence.SUSPICIOUS
    assert convergence(pd.Series([5, 5, 6, 5, 5, 6]), reference, 6) is Convergence.PLAUSIBLE
