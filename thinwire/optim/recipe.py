"""The recipe of a suite: optimizer, learning rate and its schedule."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from thinwire.base.errors import MethodError
from thinwire.base.options import problems
from thinwire.optim.inputs import PartitionKind, Reading

# Far more than anybody trains: a typing error should give a message and not an endless run.
MOST_EPOCHS = 1_000_000


class Strict(BaseModel):
    """Unknown keys are refused, and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


# Options that only some of the optimizers have.
BELONGS = {
    "momentum": ("sgd", "lars", "muon"),
    "nesterov": ("sgd",),
    "trust": ("lars",),
    "lr_inside_momentum": ("lars",),
    "beta1": ("adam", "adamw", "muon"),
    "beta2": ("adam", "adamw", "muon"),
}
# Options that only some of the schedules have.
BELONGS_TO_SCHEDULE = {
    "factor": ("step", "exponential", "plateau"),
    "power": ("polynomial",),
    "patience": ("plateau",),
    "threshold": ("plateau",),
}
# Options that came later. Recipes of other schedules keep the digest that they had before.
_OF_PLATEAU_ONLY = ("patience", "threshold")
# The same for recipes that leave these as they are.
_CAME_LATER = {
    "prefetch": False,
    "clip_norm": None,
    "accumulate": 1,
    "partition": "iid",
    "precision": "fp32",
    "channels_last": False,
    "epoch_steps": None,
}
# In which models compute their passes.
Precision = Literal["fp32", "tf32", "bf16"]


class Optimizer(Strict):
    """Stochastic gradient descent with momentum, LARS, Adam, AdamW, or Muon; see `optim/optimizers.py`."""

    name: Literal["sgd", "lars", "adam", "adamw", "muon"] = Field(
        default="sgd",
        description="sgd: v <- momentum v + g + weight_decay w, w <- w - lr v; lars: a rate for each layer; "
        "adam: a rate for each entry; adamw: adam with decoupled weight decay; "
        "muon: orthogonal updates of hidden matrices, adamw for the other parameters",
    )
    lr: float = Field(gt=0, description="learning rate after the warm-up")
    lr_reference_batch: int | None = Field(
        default=None,
        ge=1,
        description="images per step, over all workers, for which `lr` is meant: it is scaled linearly "
        "to the batch in use (Goyal et al., 2017); none: `lr` is not scaled",
    )
    momentum: float = Field(default=0.9, ge=0, lt=1, description="momentum; muon: 0.95 if not set")
    nesterov: bool = Field(default=False, description="sgd: Nesterov's form of the momentum")
    weight_decay: float = Field(
        default=0.0,
        ge=0,
        description="L2; sgd, adam: on all parameters; lars: on those with several dimensions; adamw, "
        "muon: on the same ones, decoupled: w <- w - lr weight_decay w",
    )
    trust: float = Field(default=0.001, gt=0, description="lars: trust coefficient of a layer's rate")
    lr_inside_momentum: bool = Field(
        default=True, description="lars: true: `lr` inside the momentum (You et al.); false: outside"
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="adam, adamw, muon: decay of the mean gradient")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="adam, adamw, muon: decay of the mean square")

    @model_validator(mode="before")
    @classmethod
    def _usual_momentum_of_muon(cls, content: object) -> object:
        if isinstance(content, dict) and content.get("name") == "muon":
            return {"momentum": 0.95, **content}
        return content

    @model_validator(mode="after")
    def _belongs_together(self) -> "Optimizer":
        for option in sorted(self.model_fields_set & set(BELONGS)):
            if self.name not in BELONGS[option]:
                raise ValueError(f"{option} belongs to {' and '.join(BELONGS[option])}, not to {self.name}")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        return self

    def changed(self, momentum: float | None, weight_decay: float | None) -> "Optimizer":
        """Return this optimizer with another momentum or weight decay; None leaves it as it is.

        Raises:
            MethodError: this optimizer has no momentum, or a value is out of range.
        """
        changes: dict[str, float] = {}
        if momentum is not None:
            changes["momentum"] = momentum
            if not momentum and self.nesterov:
                changes["nesterov"] = False
        if weight_decay is not None:
            changes["weight_decay"] = weight_decay
        try:
            return Optimizer.model_validate(self.model_dump(include=self.model_fields_set) | changes)
        except ValidationError as error:
            raise MethodError(
                f"run.make_optimizer: {'; '.join(problems(error))}; if the method needs certain optimizers, "
                "name them in `needs`"
            ) from None


class Schedule(Strict):
    """The learning rate over the run, as a factor of the optimizer's `lr`."""

    name: Literal["constant", "cosine", "step", "polynomial", "exponential", "plateau"] = Field(
        default="cosine", description="the shape after the warm-up"
    )
    warmup_epochs: float = Field(default=0.0, ge=0, description="epochs of linear warm-up, step by step")
    milestones: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(), strict=False, description="step: epochs at whose beginning the rate drops"
    )
    factor: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="step: factor at each milestone; exponential: factor after each epoch; plateau: factor "
        "whenever the training loss has stopped falling",
    )
    power: float = Field(
        default=2.0, gt=0, description="polynomial: power of the share of the run that is left"
    )
    patience: int = Field(
        default=10, ge=0, description="plateau: epochs without a new lowest loss that do not lower the rate"
    )
    threshold: float = Field(
        default=1e-4, ge=0, lt=1, description="plateau: share by which a loss must be below the lowest one"
    )

    @model_validator(mode="after")
    def _milestones_belong_to_step(self) -> "Schedule":
        if bool(self.milestones) != (self.name == "step"):
            raise ValueError("milestones belong to the schedule named step, which needs them")
        for option, names in BELONGS_TO_SCHEDULE.items():
            if option in self.model_fields_set and self.name not in names:
                raise ValueError(f"{option} belongs to {' and '.join(names)}, not to {self.name}")
        if self.name == "exponential" and "factor" not in self.model_fields_set:
            raise ValueError("the schedule named exponential needs a factor: what each epoch leaves")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError("milestones must rise")
        return self

    @model_serializer(mode="wrap")
    def _without_options_of_plateau(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        left_out = () if self.name == "plateau" else _OF_PLATEAU_ONLY
        return {key: value for key, value in dump(self).items() if key not in left_out}


class Recipe(Strict):
    """Epochs, batches, optimizer and schedule."""

    epochs: int = Field(ge=1, le=MOST_EPOCHS, description="passes over the training set")
    epoch_steps: int | None = Field(
        default=None,
        ge=1,
        description="an epoch ends after so many steps, and with it this pass; none: after the whole pass",
    )
    batch: int = Field(ge=1, description="images per step")
    batch_per: Literal["worker", "run"] = Field(
        description="`worker`: each worker takes `batch` images (weak scaling); `run`: all workers "
        "together do (strong scaling). These are different experiments and never share a table"
    )
    mixup: float = Field(
        default=0.0,
        ge=0,
        description="pairs of images are mixed, with shares from Beta(mixup, mixup) (Zhang et al., "
        "arXiv 1710.09412); 0: no mixup",
    )
    augment: bool = Field(default=True, description="apply the data set's crops and flips")
    reading: Reading = Field(
        default="random",
        description="random: one permutation of all images; strided: of every W batches in the order of the "
        "file, each of the W workers reads one; contiguous: each worker reads one range of the file in "
        "chunks, and the ranges rotate by epoch (HSGD's input)",
    )
    partition: PartitionKind = Field(
        default="iid",
        description="iid: all workers draw from all inputs; {dirichlet: alpha}: each worker has labels in "
        "shares from Dirichlet(alpha), and all have equally many inputs; natural: whole clients",
    )
    prefetch: bool = Field(
        default=False,
        description="a thread of each process reads and prepares the next batch while this one is used",
    )
    clip_norm: float | None = Field(
        default=None,
        gt=0,
        description="each worker shortens its own gradient to this norm over all tensors, before the method "
        "sends anything; none: no clipping",
    )
    accumulate: int = Field(
        default=1,
        ge=1,
        description="parts in which each worker computes its batch, one after the other, to save memory; the "
        "method sees the mean of their gradients",
    )
    precision: Precision = Field(
        default="fp32",
        description="fp32: 32 bits; tf32: a GPU rounds what it multiplies to 10 bits of mantissa, also for "
        "methods; bf16: torch's autocast to bfloat16 in the passes. Weights and gradients have 32 bits",
    )
    channels_last: bool = Field(
        default=False,
        description="the channels of an image's pixel lie side by side in memory, as tensor cores want them",
    )
    optimizer: Optimizer = Field(description="the optimizer that every method starts from")
    schedule: Schedule = Field(default=Schedule(), description="the learning rate over the run")
    evaluate_every_epochs: int = Field(
        default=1,
        ge=1,
        description="epochs between two evaluations; the end of the run is always evaluated",
    )

    @model_validator(mode="after")
    def _schedule_fits(self) -> "Recipe":
        if any(milestone >= self.epochs for milestone in self.schedule.milestones):
            raise ValueError(
                f"milestones {list(self.schedule.milestones)} do not all lie within the {self.epochs} epochs"
            )
        if self.partition != "iid" and self.reading != "random":
            raise ValueError(
                f"partition: {self.partition} needs the reading random: with {self.reading}, workers take "
                "turns in reading the same inputs"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_what_came_later(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Recipes without these options keep the digest that they had before there were any."""
        items = dump(self).items()
        return {k: v for k, v in items if k not in _CAME_LATER or v != _CAME_LATER[k]}

    @classmethod
    def of_dump(cls, dump: dict[str, Any]) -> "Recipe":
        """Return the recipe that `model_dump` gave. A dump also has the options that do not belong.

        Raises:
            ValidationError: no recipe has this dump.
        """
        made = {**dump}
        for section, belongs in (("optimizer", BELONGS), ("schedule", BELONGS_TO_SCHEDULE)):
            name = dump[section]["name"]
            made[section] = {k: v for k, v in dump[section].items() if name in belongs.get(k, (name,))}
        return cls.model_validate(made)

    def batch_per_worker(self, workers: int) -> int:
        """Return how many images a worker has in each step; a `ValueError` if they cannot be divided."""
        if self.batch_per == "run" and self.batch % workers:
            raise ValueError(
                f"a batch of {self.batch} for the run cannot be shared evenly by {workers} workers"
            )
        batch = self.batch if self.batch_per == "worker" else self.batch // workers
        if batch % self.accumulate:
            raise ValueError(
                f"a worker's batch of {batch} cannot be divided into {self.accumulate} equal parts "
                "(accumulate)"
            )
        return batch
