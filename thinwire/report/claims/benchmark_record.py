"""What the newest record of a benchmark says, for claims that only a benchmark measures."""

from thinwire.config.untested_claims import Printed
from thinwire.errors import UserError
from thinwire.plugins import show


def sentence(printed: Printed) -> str:
    """The lines of the newest record that begin so, with the machine on which they were printed.

    Raises:
        UserError: there is no such record, or it has no such line.
    """
    record = printed.newest_record()
    lines = record.read_text().splitlines()
    found = [line for line in lines if line.startswith(printed.lines)]
    if not found:
        raise UserError(f"{show(record)} has no line that begins with {printed.lines!r}")
    (machine,) = [line.removeprefix("# machine: ") for line in lines if line.startswith("# machine: ")]
    return f"`python benchmarks/{printed.benchmark}.py` printed on {machine}: {'; '.join(found)}."
