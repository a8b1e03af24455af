"""Holm's correction of the p-values of a family: comparisons that are read together.

The families are those of `thinwire.report.comparisons`, the methods of a cell, and of
`thinwire.report.speed_ups`, the methods of a cell on a cluster. Claims are not corrected (docs/claims.md).
"""

import math
from collections.abc import Sequence

from statsmodels.stats.multitest import multipletests


def holm(p_values: Sequence[float]) -> list[float]:
    """The corrected p-values, in the same order; NaN stays NaN and does not count."""
    known = [p for p in p_values if not math.isnan(p)]
    corrected = iter(multipletests(known, method="holm")[1] if known else [])
    return [math.nan if math.isnan(p) else float(next(corrected)) for p in p_values]
