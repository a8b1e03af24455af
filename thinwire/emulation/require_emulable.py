"""What a cell must be so that this machine can emulate its cluster."""

from thinwire.config.cell import Cell
from thinwire.errors import UserError


def require_emulable(cell: Cell) -> None:
    """Require that emulation would do what the description of the cluster says.

    Raises:
        UserError: it would not.
    """
    assert cell.cluster is not None
    link = cell.cluster.link
    where = f"{cell.path} cannot be emulated on {cell.cluster.name}"
    if cell.nodes < 2:
        raise UserError(
            f"{where}: its {cell.workers} workers are on one node and use no link; choose a cell with "
            "several nodes, such as {workers: 2, nodes: 2}"
        )
    if cell.device != "cpu":
        raise UserError(f"{where}: emulated links join CPUs only; set device: cpu")
    if not link.full_duplex:
        raise UserError(f"{where}: emulated links have both directions at once; set full_duplex: true")
    if not link.shared_by_workers and cell.workers > cell.nodes:
        raise UserError(f"{where}: an emulated node has one link; set shared_by_workers: true")
