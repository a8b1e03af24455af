"""The keys of a suite, and what must hold among them and those of its entries."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationError, model_validator

from thinwire.base.options import Strict, problems
from thinwire.config.claims import Claim
from thinwire.config.entry_schema import OF_METHODS, REPLACES, Entries, Entry, Labels, named, once
from thinwire.config.hardware import MOST_GBIT_PER_SECOND, Link
from thinwire.config.yaml_file import Label, NumberOfWorkers, OneLine, SuiteName
from thinwire.optim.recipe import Recipe
from thinwire.optim.tunable import changed

# Far more than anybody runs. With this limit a typo gives an error message and does not fill the memory.
MOST_SECONDS = 366 * 24 * 3600.0


Sizes = Annotated[list[NumberOfWorkers], Field(min_length=1), AfterValidator(once)]
_Counts = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1), AfterValidator(once)]


class Simulate(Strict):
    """The clusters on which the time of a suite's cells is simulated."""

    clusters: Labels = Field(min_length=1, description="files in config/clusters/")
    workers: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], AfterValidator(once)] = Field(
        default=[], description="numbers of workers; default: those of the suite"
    )
    rates_gbit_per_second: Annotated[
        list[Annotated[float, Field(gt=0, le=MOST_GBIT_PER_SECOND)]], AfterValidator(once)
    ] = Field(default=[], description="rates that the link of each cluster has in addition to its own")
    steps: int = Field(default=200, ge=1, description="of a run, the first so many")
    accelerator: Label | None = Field(
        default=None,
        description="a file in config/accelerators/: what computing takes there; default: on this machine",
    )


class Track(Strict):
    """A frozen competition: who reaches a target in the fewest simulated seconds; see docs/track.md."""

    cluster: Label = Field(description="a file in config/clusters/, one of those in `simulate`")
    target: float = Field(gt=0, description="of the score that the suite's task is judged by")
    seeds: int = Field(ge=2, description="runs of an entry; as many as `repetitions`")
    sigma: float = Field(
        gt=0, description="standard deviation of ln(steps to the target) among the seeds of a baseline"
    )
    threshold: float = Field(
        gt=0,
        description="a score is significantly better than another if ln(other / score) x sqrt(seeds) is at "
        "least so many sigma",
    )


class Round(Strict):
    """The steps after which the calls of a method begin again."""

    steps: int = Field(ge=1, description="of a round")
    mirrored: int | None = Field(
        default=None, ge=2, description="of these; all others are as the first one, which has no calls"
    )
    options: dict[str, object] = Field(
        default={}, description="of the method, with which a round has so many"
    )

    @model_validator(mode="after")
    def _has_the_mirrored(self) -> "Round":
        if self.mirrored is not None and self.mirrored > self.steps:
            raise ValueError(
                f"mirrored: a round has {self.steps} steps, which are fewer than {self.mirrored}"
            )
        return self


class WithoutData(Strict):
    """Clusters of GPUs on which the time of a suite's methods is simulated without its data."""

    accelerators: Labels = Field(min_length=1, description="files in config/accelerators/")
    cluster: Label = Field(description="a file in config/clusters/: its memory bus, software and algorithms")
    workers: _Counts = Field(description="numbers of workers")
    workers_per_node: _Counts = Field(description="on nodes of so many workers each")
    links: list[Link] = Field(min_length=1, description="of each node")
    rounds: dict[Label, Round] = Field(
        default={}, description="steps after which the calls of a method begin again; default: 1"
    )


class Suite(Strict):
    """A comparison of methods. config/README.md explains every key."""

    title: OneLine = Field(description="one line: what this suite is for")
    seed: int = Field(ge=0, lt=2**63, description="all seeds of the suite are derived from it")
    repetitions: int = Field(ge=1, description="runs of each cell, with different seeds")
    datasets: Annotated[Entries, BeforeValidator(named, json_schema_input_type=list[str] | Entries)] = Field(
        description="modules in datasets/: a list of names, or by label"
    )
    models: Entries = Field(description="modules in models/, by label")
    methods: Entries = Field(
        description="modules in methods/, by label; `'*'` is every module that no other entry uses",
    )
    leave_out: Labels = Field(default=[], description="modules in methods/ that `'*'` leaves out")
    workers: Sizes = Field(description="numbers of workers, or {workers: W, nodes: N}")
    recipe: Recipe = Field(description="how every method trains")
    tuned: SuiteName | None = Field(
        default=None,
        description="a file in config/tuned/: what a tuning has chosen for each method",
    )
    baseline: Label = Field(
        default="ssgd", description="label of the method with which the others are compared"
    )
    evaluate_on: Literal["test", "held_out"] = Field(
        default="test",
        description="held_out: a tenth of the training set replaces the test set, for tuning",
    )
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where the workers compute")
    transport: Literal["inprocess", "processes", "emulated"] = Field(
        default="inprocess",
        description="all workers in one process, or one process for each, also on an emulated cluster; only "
        "processes are timed",
    )
    cluster: Label | None = Field(
        default=None, description="of emulated: a file in config/clusters/, without .yaml"
    )
    backend: Literal["gloo", "nccl"] | None = Field(
        default=None, description="of processes: carries the collectives; default: nccl on GPUs, gloo on CPUs"
    )
    nccl: Literal["bits", "timing"] = Field(
        default="bits",
        description="of processes on GPUs: settings of NCCL that repeat bits, or its own fast choices",
    )
    simulate: Simulate | None = Field(
        default=None, description="simulate the time of every method on described clusters"
    )
    track: Track | None = Field(default=None, description="makes the suite a competition: docs/track.md")
    without_data: WithoutData | None = Field(
        default=None, description="simulate the time of every method on clusters of GPUs, without the data"
    )
    ladder: Labels = Field(
        default=[],
        description="labels of methods, each with one change to the one before; default: there is no ladder",
    )
    claim: list[Claim] = Field(
        default=[], description="what this suite tests of a publication: docs/claims.md"
    )
    checkpoint_every_seconds: float = Field(
        default=60.0, ge=0, le=MOST_SECONDS, description="the most training that an interruption may cost"
    )
    hang_seconds: float = Field(
        default=300.0,
        gt=0,
        le=MOST_SECONDS,
        description="of processes: a run without any progress for so long has failed",
    )

    # What a tuning has chosen for single places (`digits/cnn/w4`), by label; empty: the same everywhere.
    _places: dict[str, dict[str, Entry]] = PrivateAttr(default={})
    _places_note: str = PrivateAttr(default="")

    def in_places(self, places: dict[str, dict[str, Entry]], note: str) -> "Suite":
        """The suite with other entries in each place, and a note on them for its tables."""
        made = self.model_copy()
        made._places, made._places_note = places, note
        return made

    @property
    def places_note(self) -> str:
        """What tables say of places in which nothing was tuned."""
        return self._places_note

    def at(self, dataset: str, model: str, size: str) -> "Suite":
        """The suite with the entries of one place; itself if they are the same everywhere."""
        own = self._places.get(f"{dataset}/{model}/{size}")
        return self if own is None else self.model_copy(update={"methods": self.methods | own})

    def everywhere(self) -> list["Suite"]:
        """The suites of all places; itself if they are the same everywhere."""
        return [self.at(*place.split("/")) for place in self._places] or [self]

    @model_validator(mode="after")
    def _belongs_together(self) -> "Suite":
        sizes = [size.workers for size in self.workers]
        _require_even_batch(self.recipe, sizes)
        _require_even_batch(self.recipe, self.simulate.workers if self.simulate else [], "simulate.workers: ")
        for kind, entries in (("models", self.models), ("datasets", self.datasets)):
            for label, entry in entries.items():
                for key, belongs in OF_METHODS.items():
                    if getattr(entry, key) is not None:
                        raise ValueError(f"{kind}.{label}: {belongs}")
        for kind, entries in (("models", self.models), ("methods", self.methods)):
            for label, entry in entries.items():
                if entry.partition is not None:
                    raise ValueError(f"{kind}.{label}: a partition belongs to a data set, or to the recipe")
        for label in self.methods:
            self._require_repeated(label)
            _require_even_batch(self.recipe_of(label), sizes, f"methods.{label}.batch: ")
            for dataset in self.datasets:
                self.recipe_of(label, dataset)
        if self.backend is not None and self.transport == "inprocess":
            raise ValueError("backend: workers in one process need none; it goes with transport: processes")
        if (self.cluster is not None) != (self.transport == "emulated"):
            raise ValueError("cluster: it belongs to transport: emulated, which needs it")
        if self.cluster is not None and (self.device != "cpu" or min(s.nodes for s in self.workers) < 2):
            raise ValueError(
                "transport: emulated links join several nodes of CPUs: set device and workers so"
            )
        if self.backend == "nccl" and self.device == "cpu":
            raise ValueError("backend: nccl carries nothing between CPUs; take gloo, or device: cuda")
        over_nccl = (self.device, self.transport) == ("cuda", "processes") and self.backend != "gloo"
        if self.nccl != "bits" and not over_nccl:
            raise ValueError(
                "nccl: timing is about NCCL, which joins processes on GPUs only: it goes with device: cuda "
                "and transport: processes, without backend: gloo"
            )
        if self.recipe.precision == "tf32" and self.device == "cpu":
            raise ValueError("recipe.precision: CPUs have no tf32: take fp32 or bf16, or device: cuda")
        return self

    def recipe_of(self, method: str, dataset: str | None = None) -> Recipe:
        """The recipe of the method with this label, on any data set or on the one with this label."""
        entry, made = self.methods.get(method, Entry()), self.recipe
        changes: dict[str, dict[str, object]] = {
            f"methods.{method}.{key}": {key: own}
            for key in REPLACES
            if (own := getattr(entry, key)) is not None
        }
        if entry.recipe is not None:
            changes[f"methods.{method}.recipe"] = entry.recipe.model_dump(exclude_none=True)
        if dataset is not None and (partition := self.datasets[dataset].partition) is not None:
            changes[f"datasets.{dataset}.partition"] = {"partition": partition}
        for path, change in changes.items():
            try:
                made = changed(made, change)
            except ValidationError as error:
                raise ValueError(f"{path}: {problems(error)[0]}") from None
        return made

    def _require_repeated(self, method: str) -> None:
        """Require that a method that is tuned again is the baseline."""
        entries = {self.baseline: Entry()} | self.methods
        own, first = (
            entries[label].model_copy(update={"use": entries[label].use or label, "tuned_again": None})
            for label in (method, self.baseline)
        )
        if entries[method].tuned_again and own != first:
            raise ValueError(
                f"methods.{method}: tuned_again repeats the baseline {self.baseline}: give it its module "
                "and keys"
            )


def _require_even_batch(recipe: Recipe, sizes: list[int], where: str = "") -> None:
    """Require that so many workers share the batch evenly."""
    for workers in sizes:
        try:
            recipe.batch_per_worker(workers)
        except ValueError as error:
            raise ValueError(f"{where}{error}") from None
