"""What the newest record of a benchmark says, for claims that only a benchmark measures."""

from thinwire.config.untested_claims import Untested
from thinwire.errors import UserError
from thinwire.plugins import show


def sentence(claim: Untested) -> str | None:
    """What a benchmark has printed about a claim, and on which machine; None if there is no record.

    Raises:
        UserError: the newest record has no line that begins as the claim says.
    """
    record = claim.printed.newest_record() if claim.printed else None
    if claim.printed is None or record is None:
        return None
    lines = record.read_text().splitlines()
    found = [line for line in lines if line.startswith(claim.printed.lines)]
    if not found:
        raise UserError(f"{show(record)} has no line that begins with {claim.printed.lines!r}")
    (machine,) = [line.removeprefix("# machine: ") for line in lines if line.startswith("# machine: ")]
    return f"`python benchmarks/{claim.printed.benchmark}.py` printed on {machine}: {'; '.join(found)}."
