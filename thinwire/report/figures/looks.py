"""A colour, a marker and dashes for each method. What only names colours needs no library that draws."""

from hashlib import sha256
from typing import NamedTuple

_BLACK = (0.1, 0.1, 0.1)
# Colours that differ for the colour-blind, each dark enough for a label on white.
_COLOURS = (
    *("#0173b2", "#c46a00", "#00805c", "#a3479b", "#c03a2b"),
    *("#7a5a2f", "#4b5bb5", "#6f7400", "#c2558c", "#2b8a9a"),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
_DASHES = ((), (4, 1.5), (1, 1), (3, 1, 1, 1), (5, 1, 1, 1, 1, 1), (2, 2))


class Look(NamedTuple):
    """How the line and the points of a method are drawn."""

    colour: str | tuple[float, float, float]
    marker: str
    dash: tuple[float, ...]  # lengths of dashes and gaps; none: a solid line


# By label. Other labels that begin with one of these have its colour, such as `daso_blocking`.
_KNOWN = {
    "ssgd": Look(_BLACK, "o", _DASHES[0]),
    "ssgd_bf16": Look(_BLACK, "s", _DASHES[1]),
    "ssgd_one_bucket": Look(_BLACK, "^", _DASHES[2]),
    "ssgd_bf16_one_bucket": Look(_BLACK, "D", _DASHES[3]),
    "daso": Look("#0173b2", "v", _DASHES[0]),
    "dgc": Look("#c46a00", "P", _DASHES[1]),
    "hylo": Look("#00805c", "X", _DASHES[2]),
    "hsgd": Look("#a3479b", "<", _DASHES[3]),
    "multi_step_delay": Look("#c03a2b", ">", _DASHES[4]),
    "mp2": Look("#7a5a2f", "*", _DASHES[5]),
    "wnn": Look("#4b5bb5", "p", _DASHES[0]),
    "local_sgd": Look("#6f7400", "o", _DASHES[1]),
    "local_sgd_4": Look("#6f7400", "s", _DASHES[3]),
    "top_k": Look("#c2558c", "D", _DASHES[2]),
    "top_k_10": Look("#c2558c", "^", _DASHES[4]),
    "ps_sgd": Look("#2b8a9a", "h", _DASHES[5]),
    "power_sgd": Look("#0173b2", "o", _DASHES[2]),
    "sign_sgd": Look("#c46a00", "s", _DASHES[2]),
    "qsgd": Look("#00805c", "^", _DASHES[0]),
    "quantised_all_reduce": Look("#a3479b", "D", _DASHES[0]),
    "one_bit_adam": Look("#c03a2b", "v", _DASHES[1]),
    "ef21": Look("#7a5a2f", "P", _DASHES[0]),
    "demo_sgd": Look("#6f7400", "X", _DASHES[0]),
    "dion": Look("#2b8a9a", "<", _DASHES[0]),
    "diloco": Look("#4b5bb5", "o", _DASHES[4]),
    "des_loc": Look("#c2558c", ">", _DASHES[1]),
    "sparse_loco": Look("#00805c", "*", _DASHES[0]),
    "gossip": Look("#7a5a2f", "h", _DASHES[0]),
    "muloco": Look("#a3479b", "v", _DASHES[4]),
    "acp_sgd": Look("#c03a2b", "p", _DASHES[2]),
    "bsp": Look("#2b8a9a", "v", _DASHES[2]),
    "terngrad": Look("#c2558c", "P", _DASHES[2]),
    "nuqsgd": Look("#6f7400", "p", _DASHES[1]),
    # Their digests give them the look of a label beside them.
    "ssgd_bf16_5mb": Look(_BLACK, "P", _DASHES[3]),
    "ssgd_no_overlap": Look(_BLACK, "<", _DASHES[1]),
    "hylo_exponent_1": Look("#00805c", "D", _DASHES[4]),
    "hylo_random": Look("#00805c", "o", _DASHES[5]),
    "local_sgd_adaptive": Look("#6f7400", "^", _DASHES[1]),
}


def look(label: str, baseline: bool = False) -> Look:
    """How a method is drawn. It follows from its label alone, but baselines are black."""
    found = _KNOWN.get(label) or _by_digest(label)
    return found._replace(colour=_BLACK) if baseline else found


def _by_digest(label: str) -> Look:
    """The look of any label, with the colour of the known one that it begins with."""
    first, second, third, *_ = sha256(label.encode()).digest()
    colour: str | tuple[float, float, float] = _COLOURS[first % len(_COLOURS)]
    for known, its in _KNOWN.items():
        if label.startswith(f"{known}_"):
            colour = its.colour
    return Look(colour, _MARKERS[second % len(_MARKERS)], _DASHES[third % len(_DASHES)])
