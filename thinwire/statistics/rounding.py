"""How numbers are rounded: the tables decide on a value once, and every text shows that value in one way."""

import math
from decimal import ROUND_HALF_UP, Context, Decimal

DIGITS = 9  # significant ones in tables
# Enough for all digits of any float.
_CONTEXT = Context(prec=2000, rounding=ROUND_HALF_UP)


def table_digits(value: float) -> float:
    """The value as tables give it: with nine significant digits.

    The last digits of a sum differ between processors, and decide on which side of a tie it lies.
    """
    return float(f"{value:.{DIGITS}g}")


def fixed(value: float, digits: int) -> str:
    """A number with so many digits after the point.

    Ties are rounded away from zero, as JavaScript does it on the page of results. What is rounded to zero has
    no sign. A missing number is `nan`, an infinite one `inf`.
    """
    if not math.isfinite(value):
        return str(float(value))
    text = str(Decimal(float(value)).quantize(Decimal(1).scaleb(-digits), context=_CONTEXT))
    return text if Decimal(text) else text.removeprefix("-")
