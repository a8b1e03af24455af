"""Described clusters and accelerators, with which the simulation computes; the emulation builds clusters.

Each is one file. Those in `config/clusters/` describe nodes and the links between them. Those in
`config/accelerators/` say how fast a device is at the operations that training consists of; their names end
with the precision of the recipe.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from thinwire.base.errors import Problems, UserError, nearest
from thinwire.base.options import Strict, problems
from thinwire.base.placement import Cluster
from thinwire.config import yaml_file
from thinwire.config.yaml_file import MOST_WORKERS, Label, OneLine
from thinwire.optim.recipe import Precision
from thinwire.plugins import ROOT, show

CLUSTERS = ROOT / "config" / "clusters"
ACCELERATORS = ROOT / "config" / "accelerators"
# Far beyond any network. With these limits a typo gives an error message and no endless simulation.
MOST_GBIT_PER_SECOND = 1e5  # of a link
_MOST_SECONDS = 60.0

Seconds = Annotated[float, Field(ge=0, le=_MOST_SECONDS)]


class Link(Strict):
    """What joins a node to the others: a cable to a switch that is never the bottleneck itself."""

    rate_gbit_per_second: float | None = Field(
        default=None, gt=0, le=MOST_GBIT_PER_SECOND, description="in each direction, headers included"
    )
    rate_mbit_per_second: float | None = Field(
        default=None, gt=0, le=MOST_GBIT_PER_SECOND * 1e3, description="the same; give one of the two"
    )
    latency_seconds: Seconds = Field(
        description="from a node to another one, one way, beyond what the rate and the software take"
    )
    shared_by_workers: bool = Field(
        default=True, description="do all workers of a node share one link? false: each has its own"
    )
    full_duplex: bool = Field(
        default=True, description="has each direction the whole rate? false: both share it"
    )

    @model_validator(mode="after")
    def _one_rate(self) -> "Link":
        if (self.rate_gbit_per_second is None) == (self.rate_mbit_per_second is None):
            raise ValueError("give either rate_gbit_per_second or rate_mbit_per_second")
        return self

    @property
    def rate_bits_per_second(self) -> float:
        """Of one direction, headers included."""
        if self.rate_gbit_per_second is not None:
            return self.rate_gbit_per_second * 1e9
        assert self.rate_mbit_per_second is not None
        return self.rate_mbit_per_second * 1e6

    @property
    def rate_bytes_per_second(self) -> float:
        """Of one direction, headers included."""
        return self.rate_bits_per_second / 8


class Algorithms(Strict):
    """How the workers carry out a call together."""

    all_reduce: Literal["ring", "tree", "hierarchical"] = Field(
        default="ring", description="hierarchical: a ring inside each node, and trees between them"
    )


class Stragglers(Strict):
    """How much the time that workers compute varies, beyond what was measured."""

    coefficient_of_variation: float = Field(
        default=0.0, ge=0, le=10, description="standard deviation of a step's computation over its mean"
    )


class ClusterDescription(Strict):
    """Nodes, and what joins their workers. docs/emulation.md explains every key."""

    name: Label = Field(description="of the file, without .yaml")
    title: OneLine = Field(description="one line: what this cluster is")
    nodes: int = Field(ge=1, le=MOST_WORKERS, description="unless a run asks for another number")
    workers_per_node: int = Field(ge=1, le=MOST_WORKERS, description="unless a run asks for another number")
    link: Link = Field(description="of each node")
    memory_bus_gigabytes_per_second: float = Field(
        gt=0, le=1e6, description="that the workers of a node pass to one another, all together"
    )
    call_latency_seconds: Seconds = Field(
        description="of software: what each call takes beyond its bytes and the latency of the link"
    )
    algorithms: Algorithms = Algorithms()
    stragglers: Stragglers = Stragglers()

    @property
    def memory_bus_bytes_per_second(self) -> float:
        """That the workers of a node pass to one another, all together."""
        return self.memory_bus_gigabytes_per_second * 1e9

    def at_rates(self, gbits_per_second: Iterable[float]) -> list["ClusterDescription"]:
        """The same cluster with links of each of these rates, except its own."""
        rates = [rate for rate in gbits_per_second if rate * 1e9 != self.link.rate_bits_per_second]
        changes = [{"rate_gbit_per_second": rate, "rate_mbit_per_second": None} for rate in rates]
        return [self.with_link(self.link.model_copy(update=change)) for change in changes]

    def with_link(self, link: Link) -> "ClusterDescription":
        return self.model_copy(update={"link": link})

    def spread(self, workers: int) -> Cluster:
        """So many workers, equally many on each of as few nodes as have room for them, or a UserError."""
        each = min(workers, self.workers_per_node)
        if workers % each:
            raise UserError(
                f"{workers} workers cannot be spread over nodes of {self.name}, which have "
                f"{self.workers_per_node} each"
            )
        return Cluster(workers, workers // each)


def load_cluster(name: str) -> ClusterDescription:
    """Read and validate the cluster of this name; a UserError lists all errors of its file."""
    return read(yaml_file.named(CLUSTERS, name, "cluster"))


def read(path: Path) -> ClusterDescription:
    """Read and validate the file of a cluster; its name is that of the file."""
    content = yaml_file.mapping(path, "a cluster", "docs/emulation.md")
    if "name" in content:
        raise Problems(show(path), ["name: it is that of the file; leave it out"])
    try:
        return ClusterDescription.model_validate({"name": path.stem, **content})
    except ValidationError as error:
        raise Problems(show(path), _problems(error)) from None


def _problems(error: ValidationError) -> list[str]:
    """The problems, one sentence each; for an unknown key with the nearest one of its section."""
    keys = dict(_keys(ClusterDescription))
    found = []
    for problem, sentence in zip(error.errors(), problems(error)):
        if problem["type"] == "extra_forbidden":
            *section, key = map(str, problem["loc"])
            inside = "".join(f"{part}." for part in section)
            known = keys if key in keys else {k: p for k, p in keys.items() if p.startswith(inside)}
            sentence += f"; the nearest is {known[nearest(key, known)]}"
        found.append(sentence)
    return found


def _keys(schema: type[Strict], section: str = "") -> Iterator[tuple[str, str]]:
    """All keys of a file, each with its path, so that one in the wrong section is found, too."""
    for key, field in schema.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Strict):
            yield from _keys(field.annotation, f"{section}{key}.")
        elif key != "name":
            yield key, section + key


class Accelerator(Strict):
    """A device of which nobody needs to have one here. docs/large_networks.md explains every key."""

    title: OneLine = Field(description="one line: what this device is")
    precision: Precision = Field(description="of a recipe with which it reaches these rates")
    convolution_flops_per_second: float = Field(gt=0, description="that large convolutions reach")
    product_flops_per_second: float = Field(gt=0, description="that large products of matrices reach")
    memory_gigabytes_per_second: float = Field(gt=0, description="that large operations reach")
    operation_seconds: float = Field(gt=0, le=1, description="the least, because the host has to start it")
    pass_operation_seconds: float = Field(
        gt=0, le=1, description="the same in passes, where autograd is at work"
    )
    error: str = Field(min_length=1, description="how wrong the times may be, and where")

    @property
    def in_passes(self) -> "Accelerator":
        """The same device, while autograd is at work."""
        return self.model_copy(update={"operation_seconds": self.pass_operation_seconds})

    def seconds(self, flops: float, convolution: bool, moved_bytes: float, started: float = 1.0) -> float:
        """How long an operation takes.

        Args:
            flops: its floating-point operations.
            convolution: is it one? Otherwise it is a product, or has no such operations.
            moved_bytes: that it reads and writes.
            started: how often the host starts it; less than once if it is started together with others.
        """
        rate = self.convolution_flops_per_second if convolution else self.product_flops_per_second
        moving = moved_bytes / (self.memory_gigabytes_per_second * 1e9)
        return max(flops / rate, moving, started * self.operation_seconds)


def accelerator_of(name: str, precision: Precision) -> str:
    """The accelerator of this name; of the name of a device, such as `a100`, the one with a precision."""
    return name if name in yaml_file.names(ACCELERATORS) else f"{name}_{precision}"


def unlike_recipe(name: str, precision: Precision) -> str | None:
    """Say that an accelerator computes in another precision than a recipe, as its runs never would.

    The result is a sentence without its full stop, or None if both are the same. Errors are those of
    `load_accelerator`.
    """
    own = load_accelerator(name).precision
    if own == precision:
        return None
    return (
        f"{name} is of {own}, and the recipe of {precision}: these are times of runs with "
        f"recipe.precision: {own}"
    )


def load_accelerator(name: str) -> Accelerator:
    """Read and validate the accelerator of this name; a UserError lists all errors of its file."""
    path = yaml_file.named(ACCELERATORS, name, "accelerator")
    return yaml_file.read(path, Accelerator, "an accelerator", "docs/large_networks.md")
