"""The recipe of a suite: optimizer, learning rate, and how inputs get to the workers; without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from thinwire.base.errors import MethodError, nearest, quoted
from thinwire.base.options import Strict, problems
from thinwire.optim.schedule import BELONGS_TO_SCHEDULE, Schedule

# Far more than anybody trains: a typing error should give a message and not an endless run.
MOST_EPOCHS = 1_000_000
# Options that only some of the optimizers have.
BELONGS = {
    "momentum": ("sgd", "lars", "muon"),
    "nesterov": ("sgd",),
    "trust": ("lars",),
    "lr_inside_momentum": ("lars",),
    "beta1": ("adam", "adamw", "muon"),
    "beta2": ("adam", "adamw", "muon"),
}
# Options that came later. Recipes that leave them as they are keep the digest that they had before.
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
READINGS = ("random", "strided", "contiguous")
# Beyond these, shares are whole labels or equal in all digits.
LEAST_ALPHA, MOST_ALPHA = 1e-6, 1e6


def _reading(value: object) -> object:
    if isinstance(value, str) and value not in READINGS:
        raise ValueError(
            f"there is no reading {quoted(value)}: there are {', '.join(READINGS)}, and the nearest is "
            f"{nearest(value, READINGS)}"
        )
    return value


Reading = Annotated[Literal["random", "strided", "contiguous"], BeforeValidator(_reading)]


@dataclass(frozen=True)
class Dirichlet:
    """Each worker's shares of labels come from a Dirichlet distribution."""

    dirichlet: float
    """Its concentration alpha: the smaller, the more the workers differ."""

    def __str__(self) -> str:
        return f"dirichlet {self.dirichlet:g}"


def _partition(value: object) -> object:
    if isinstance(value, Mapping) and set(value) == {"dirichlet"}:
        alpha = value["dirichlet"]
        is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
        if not (is_number and LEAST_ALPHA <= alpha <= MOST_ALPHA):
            raise ValueError(
                f"dirichlet needs a number above 0, from {LEAST_ALPHA:g} to {MOST_ALPHA:g}, not "
                f"{quoted(alpha)}"
            )
        return Dirichlet(float(alpha))
    if isinstance(value, Dirichlet) or value in ("iid", "natural"):
        return value
    raise ValueError(f"a partition is iid, natural or {{dirichlet: alpha}}, not {quoted(value)}")


PartitionKind = Annotated[Literal["iid", "natural"] | Dirichlet, BeforeValidator(_partition)]


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


def learning_rate(recipe: Recipe, workers: int, step: int, steps_per_epoch: int) -> float:
    """Return the learning rate of step `step` (counted from 0); it is above 0 at every step of the run.

    The schedule `plateau` depends on the losses, too: `Plateau.scale` is to be multiplied with its rate.
    """
    peak = recipe.optimizer.lr
    if recipe.optimizer.lr_reference_batch:
        peak *= recipe.batch_per_worker(workers) * workers / recipe.optimizer.lr_reference_batch
    return recipe.schedule.rate(peak, step, recipe.epochs, steps_per_epoch)
