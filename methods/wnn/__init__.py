"""WNN: SSGD whose weights jump every five epochs to the values that a small network forecasts.

    g <- 1/W sum_i g_i, then the recipe's optimizer; after epochs 5, 10, ...: w <- forecast(its last 5 values)

Source: Jang et al., "Learning to Boost Training by Periodic Nowcasting Near Future Weights" (ICML 2023),
after the authors' code (github jjh6297/WNN, commit ab0f62c). A forecast is for five epochs later. There are
three forecasters, of 9,425 parameters each: for convolutions, for linear layers and for biases. Normalisation
layers, their statistics and the optimizer's state do not change in a jump. A model with batch norm does not
jump after the last step, because its statistics would still be those of the weights before.

Reconstructed: WNN on many workers, because MP2 was compared with it. All workers have the same weights, and
each forecasts them by itself, without traffic. The forecasters are trained here (`prepare`), because the
authors' training is not published. They learn from recorded runs of small architectures other than the
model's, one of which is held out. The authors published trained forecasters (files NWNN_*_13 of their
repository). These were tried once on runs recorded here. They forecast biases better than "no change", and
other weights no better. No test repeats that.

A run of E epochs stands for nearly 2 E epochs (`virtual_epochs` in its curve). So it can be compared in two
ways. With as many epochs as the other methods it saves no traffic. With half as many (`epochs` in a suite's
entry) it saves half.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

import thinwire
from thinwire.base.learning import CLASSIFICATION

from .forecaster import HISTORY, KINDS, Forecaster, forecast
from .forecaster_training import train_forecasters
from .options import Options
from .provenance import PROVENANCE
from .recorded_runs import record_weights


class Method(thinwire.Method):
    Config = Options
    config: Options
    prepares_from_models = ("cnn", "alexnet", "lenet", "resnet")
    prepares_for_any_epochs = True
    equals_ssgd = [{"forecast": False}, {"forecast": False, "nodes": 2}]
    short = {
        "interval_epochs": 0.4,
        "recorded_epochs": 6,
        "recorded_batch": 24,
        "forecaster_steps": 40,
        "windows": 2000,
    }

    provenance = PROVENANCE

    @classmethod
    def prepare(cls, config: Options, job: thinwire.Job, folder: Path) -> None:
        # The small architectures are those of images.
        if config.forecast and job.task.data.task is CLASSIFICATION:
            train_forecasters(config, job, record_weights(cls, config, job), folder)

    def skip(self) -> str | None:
        if self.config.forecast and self.run.model.task != CLASSIFICATION.name:
            return "its forecasters learn from networks that classify images"
        steps = HISTORY * self.period()
        if self.config.forecast and steps > self.run.total_steps:
            return f"its first forecast would come after {steps} steps of a run of {self.run.total_steps}"
        return None

    def period(self) -> int:
        """Steps between two values of a history."""
        return max(1, round(self.config.interval_epochs * self.run.steps_per_epoch))

    def setup(self) -> None:
        self.eligible = [param for param in self.run.params if param.kind in KINDS]
        self.memory |= {"history": [], "jumps": 0}
        self.forecasters: dict[str, Forecaster] = {}

    def sync_gradients(self) -> None:
        self.run.world.mean(self.run.gradients).wait()

    def sync_weights(self) -> None:
        steps, history = self.run.step + 1, self.memory["history"]
        if steps % self.period() == 0:
            history.append([param.tensor.data.clone() for param in self.eligible])
        if len(history) == HISTORY:
            # After a jump, batch norm has the statistics of the old weights; only further steps update them.
            if self.config.forecast and not (self.run.batch_norm and steps == self.run.total_steps):
                self.jump(history)
            history.clear()
        ahead = HISTORY * self.period() * self.memory["jumps"]
        self.run.log("virtual_epochs", (steps + ahead) / self.run.steps_per_epoch)

    def jump(self, history: list[list[Tensor]]) -> None:
        for param, *past in zip(self.eligible, *history):
            values = torch.stack([value.flatten() for value in past], dim=1)
            published = param.kind == "bias" and self.config.bias_rule == "published"
            forecaster = self.forecaster(param.kind, like=values)
            param.tensor.data.copy_(forecast(forecaster, values, published).view_as(param.tensor))
        self.memory["jumps"] += 1

    def forecaster(self, kind: str, like: Tensor) -> Forecaster:
        """The forecaster of this kind of weight, read when it is first needed."""
        if kind not in self.forecasters:
            assert self.prepared is not None
            with torch.device(like.device):
                self.forecasters[kind] = made = Forecaster().to(like.dtype)
            made.load_state_dict(load_file(self.prepared / f"{kind}.safetensors", device=str(like.device)))
        return self.forecasters[kind]
