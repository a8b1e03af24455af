"""Quasi-random draws: they cover the cube more evenly than random points do."""

from thinwire import seeds


def points(seed: int, number: int, dimensions: int) -> list[list[float]]:
    """Points of a scrambled Halton sequence in the unit cube. More of them begin with the same ones.

    Args:
        seed: of the suite.
        number: of points.
        dimensions: of the cube.
    """
    # Imported only when it is needed, because this takes about a second.
    from scipy.stats import qmc

    sequence = qmc.Halton(dimensions, scramble=True, rng=seeds.derive(seed, "tuning", "draws"))
    drawn: list[list[float]] = sequence.random(number).tolist()
    return drawn
