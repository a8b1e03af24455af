"""Decides whether a cell is skipped: first by the `needs` of its method, then by the hook `skip`."""

from thinwire.method import Method
from thinwire.optim.recipe import Recipe
from thinwire.worker_placement import Cluster


def why_skipped(method: Method, cluster: Cluster, recipe: Recipe) -> str | None:
    """Why the method cannot run on this cluster with this recipe, in one clause; None if it can."""
    needs, optimizer = method.needs, recipe.optimizer.name
    if cluster.workers < needs.workers:
        return f"it needs at least {needs.workers} workers"
    if cluster.nodes < needs.nodes:
        return f"it needs at least {needs.nodes} nodes"
    if needs.optimizers and optimizer not in needs.optimizers:
        return f"it is made for {' and '.join(needs.optimizers)}, and the recipe's optimizer is {optimizer}"
    return method.skip()
