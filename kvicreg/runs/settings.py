"""Settings: everything a run depends on, as a tree. The command line, recipes and a run's config all become this."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kvicreg.data.given import given_name
from kvicreg.data.options import DataOptions
from kvicreg.data.presets import ViewOptions
from kvicreg.methods import METHODS, MethodOptions
from kvicreg.models.cnn import AutoOptions
from kvicreg.models.encoder import ENCODERS, EncoderOptions, Normalization
from kvicreg.models.given import GivenEncoder
from kvicreg.models.projector import ProjectorOptions
from kvicreg.optimizers import OPTIMIZERS, OptimizerOptions
from kvicreg.options import Options, choice, option
from kvicreg.runs.durations import minutes

__all__ = ["EngineOptions", "ModelOptions", "RecordOptions", "ScheduleOptions", "Settings"]


def read_normalization(normalize: str) -> Normalization:
    """The mean and the deviation of each channel that a text such as 0.5,0.5,0.5/0.25,0.25,0.25 gives."""
    try:
        mean, std = (tuple(float(number) for number in part.split(",")) for part in normalize.split("/"))
        if len(mean) != len(std) or not all(map(math.isfinite, (*mean, *std))) or min(std) <= 0:
            raise ValueError("as many of both, and deviations above 0")
    except ValueError as error:
        raise ValueError(
            f"normalize: expected data, or MEAN,.../STD,... such as 0.5,0.5,0.5/0.25,0.25,0.25, got {normalize!r}"
        ) from error
    return Normalization(mean, std)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Options):
    """Encoder and projector."""

    encoder: EncoderOptions = choice(
        "auto", ENCODERS, "Encoder: small-cnn, resnet18, timm:NAME, hf:NAME, my_module:build, ..."
    )
    norm: Literal["batch", "group"] = option("batch", "Normalization; group uses no statistics of the batch.")
    projector: ProjectorOptions = field(default_factory=ProjectorOptions)
    init: str | None = option(
        None,
        "Weights to start from: a run folder, zoo:NAME, or a file of anybody's, safetensors or of torch.",
    )
    pretrained: bool = option(False, "Start from the weights that the encoder's library has published.")
    normalize: str | None = option(
        None, "Mean and deviation of the images: data, or numbers MEAN,.../STD,...; by default as the starting weights "
        "expect, else data."
    )  # fmt: skip
    freeze: str | None = option(
        None, "Blocks of the encoder that do not learn: all, a number of first blocks, or names such as conv1,layer1."
    )
    freeze_statistics: bool = option(
        False, "Keep the statistics of the encoder's batch normalization as the starting weights have them."
    )
    checkpoint_activations: bool = option(
        False, "Compute the encoder's activations again in the backward pass: less memory, more time."
    )
    ema: float | None = option(
        None, "Keep a moving average of the weights with this decay, such as 0.999, and leave it as the encoder.",
        above=0, below=1,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pretrained and self.init is not None:
            raise ValueError("pretrained and init are two starts: give one of them")
        if self.normalize not in (None, "data"):
            read_normalization(self.normalize)

    @property
    def has_start(self) -> bool:
        """Whether the encoder starts from weights that somebody has trained."""
        return self.init is not None or self.pretrained


@dataclass(frozen=True, kw_only=True)
class ScheduleOptions(Options):
    """Length of training, batches and the course of the learning rate."""

    epochs: int | None = option(
        None, "Passes over the images. Without: as many as fit into --time; 20 for data sets by name.", above=0
    )
    max_steps: int | None = option(
        None, "Stop after this many optimizer steps, even within an epoch; the schedule spans all epochs.", above=0
    )
    time_limit: str | None = option(
        None, "Save and stop after this long, such as 30m or 2h, done or not; --resume goes on."
    )
    batch_size: int | None = option(
        None,
        "Images per batch, over all processes; by default 512, 64 for your own on a CPU, fewer of few images.",
        at_least=2,
    )
    accumulate: int = option(
        1, "Batches whose gradients are averaged per step; the loss sees each batch by itself.", above=0
    )
    warmup_epochs: float = option(0.5, "Epochs of linear warm-up.", at_least=0)
    projector_epochs: float = option(
        0.0, "Epochs in which the projector learns alone; then the encoder warms up too.", at_least=0
    )
    final_learning_rate: float = option(0.0, "Where the cosine ends.", at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.time_limit is not None:
            minutes(self.time_limit, "time_limit")

    @property
    def total_epochs(self) -> int:
        """The passes over the images; where they are left open, as many as for data sets known by name."""
        return self.epochs or 20

    def batch_size_for(self, images: int, processes: int = 1, most: int = 512) -> int:
        """The batch size; where it is left open, by the number of images, and a multiple of 8 and of the processes."""
        if self.batch_size is not None:
            return self.batch_size
        unit = math.lcm(8, processes)
        return max(unit, min(most, images // 4) // unit * unit)


@dataclass(frozen=True, kw_only=True)
class EngineOptions(Options):
    """Seed, arithmetic and machines."""

    seed: int = option(0, "Seed of the weights, the order of the data and the views.", at_least=0, at_most=2**31 - 1)
    precision: Literal["32-true", "bf16-mixed", "16-mixed", "64-true", "auto"] | None = option(
        None, "Arithmetic of the encoder; auto, as for images of one's own, is bf16-mixed where that is fast."
    )
    accelerator: str = option("auto", "cpu, gpu, ... as Lightning names them.")
    devices: int = option(1, "Devices (processes) per node.", above=0)
    nodes: int = option(1, "Machines.", above=0)
    strategy: str = option("auto", "Lightning's strategy: ddp, ...")
    timeout_minutes: float = option(10.0, "Longest that processes wait for each other.", above=0)
    channels_last: bool = option(True, "Keep images with channels last in memory, which convolutions like.")
    compile: bool = option(False, "torch.compile the encoder and the projector.")
    deterministic: bool = option(False, "Only deterministic algorithms, for bit-equal runs on GPUs.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(kind in self.strategy for kind in ("fsdp", "deepspeed", "model_parallel")):
            raise ValueError(
                f"strategy: {self.strategy} splits the weights among processes, and kvicreg train writes checkpoints "
                "and encoders from the whole weights of one: use ddp. In a loop of your own our losses work with "
                "torch's FSDP (docs/many-machines.md)"
            )

    @property
    def processes(self) -> int:
        """How many train together."""
        return self.devices * self.nodes


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Options):
    """What is recorded, and where."""

    out: str | None = option(None, "Run folder; by default runs/DATA-METHOD.")
    log_every: int = option(20, "Steps between points in the logger and in the progress line.", above=0)
    checkpoint_steps: int | None = option(None, "Also save a checkpoint every so many steps.", above=0)
    checkpoint_minutes: float = option(5.0, "Also save a checkpoint when this long has passed.", above=0)
    spectrum_images: int = option(256, "Images of the fixed batch whose spectrum is recorded.", at_least=2)
    probe_images: int = option(
        2000, "Labelled training images for the online probe and k-NN (half fit, half score); 0 for none.", at_least=0
    )
    probe_every: int = option(1, "Epochs between online probes.", above=0)
    logger: Literal["tensorboard", "csv", "wandb", "mlflow"] = option(
        "tensorboard",
        "Lightning's logger for the run's numbers; mlflow goes where MLFLOW_TRACKING_URI says, wandb into the project "
        "WANDB_PROJECT.",
    )


@dataclass(frozen=True, kw_only=True)
class Settings(Options):
    """Settings of a training run.

    Each setting is a flag of `kvicreg train`, a key of a recipe and a keyword of `Settings.of`, by the same flat name.

    Example:
        >>> settings = Settings.of(data="mnist", method="simclr", temperature=0.1, epochs=2)
        >>> settings.schedule.epochs, settings.method.name
        (2, 'simclr')
        >>> settings.replace(epochs=3).schedule.epochs
        3
    """

    data: DataOptions = field(default_factory=DataOptions)
    views: ViewOptions = field(default_factory=ViewOptions)
    method: MethodOptions = choice("kernel-vicreg", METHODS, "Self-supervised method, or the supervised control.")
    model: ModelOptions = field(default_factory=ModelOptions)
    optimizer: OptimizerOptions = choice("adam", OPTIMIZERS, "Optimizer.")
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    record: RecordOptions = field(default_factory=RecordOptions)

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.record.out or f"runs/{self.data.short_name}-{self.method.label}")

    def agrees_with(self, other: Settings) -> bool:
        """Whether a run with the settings `other`, resolved, is what these settings ask for."""
        return not self.missing_from(other)

    def missing_from(self, other: Settings) -> dict[str, Any]:
        """What these settings ask for that a run with the settings `other`, resolved, is not, by flat name.

        What these leave open may be anything there; where the run and its data lie does not matter, and what was given
        from Python is no matter of settings.
        """
        elsewhere = {"out", "data_root"}
        if given_name(other.data.source) is not None:
            elsewhere.add("data")
        if isinstance(other.model.encoder, GivenEncoder):
            elsewhere |= {"encoder", *self.model.encoder.flat()}
        if isinstance(self.model.encoder, AutoOptions) and not self.model.encoder.given():
            elsewhere |= {*self.model.encoder.flat()}
        mine, theirs = self.resolved_method(getattr(other.method, "classes", None)).flat(), other.flat()
        different = {name: v for name, v in mine.items() if v not in (None, "auto") and v != theirs.get(name)}
        return {name: value for name, value in different.items() if name not in elsewhere}

    def usual(self) -> Settings:
        """These settings with what they leave open as it is for data sets known by name."""
        open_ones: dict[str, Any] = {"epochs": self.schedule.total_epochs, "precision": "32-true", "workers": 2}
        flat = self.flat()
        filled = self.replace(**{name: value for name, value in open_ones.items() if flat[name] is None})
        if not isinstance(self.model.encoder, AutoOptions):
            return filled
        return filled.replace(encoder="small-cnn")

    def resolved_method(self, classes: int | None = None) -> Settings:
        """These settings with the method's own defaults written out."""
        return replace(self, method=self.method.resolved(classes))
