"""TrainConfig: everything a run depends on. The command line, recipes and config.yaml all are this dataclass."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kvicreg.storage import read_yaml

RECIPES = Path(__file__).parent / "recipes"
_POSITIVE = (
    "epochs", "batch_size", "accumulate", "learning_rate", "width", "pool", "projector_layers", "projector_hidden",
    "projector_outputs", "components", "devices", "nodes", "log_every", "probe_every", "image_size", "max_steps",
    "clip", "checkpoint_steps", "checkpoint_minutes", "gamma", "queue", "prototypes", "predictor_hidden", "classes",
    "images", "bandwidth_multiple", "timeout_minutes", "neighbours",
)  # fmt: skip
_NOT_NEGATIVE = (
    "workers",
    "warmup_epochs",
    "weight_decay",
    "final_learning_rate",
    "momentum",
    "probe_images",
    "local_crops",
    "holdout",
    "early_pool",
)


@dataclass(kw_only=True)
class TrainConfig:
    """Settings of a training run; each field is a flag of `kvicreg train` and a key of a recipe."""

    # ---- data and views
    data: str = "mnist-small"
    """Data set by name (see kvicreg data list), a folder of images, or a list file."""
    data_root: str | None = None
    """Where downloaded data sets live; by default KVICREG_DATA or the user's cache."""
    split: Literal["train", "unlabelled"] = "train"
    """Images to pretrain on."""
    image_size: int | None = None
    """Side of the images in pixels; by default the data set's own."""
    channels: Literal[1, 3] | None = None
    """Grey (1) or colour (3); by default the data set's own."""
    views: str = "auto"
    """Preset of the random views: auto (by data set), digits, clothes, small, natural, none."""
    view: dict[str, float] = field(default_factory=dict)
    """Single strengths changed on top of the preset: --view rotation 10 blur 0.5."""
    workers: int = 2
    """Processes that decode image files; data in memory needs none."""
    images: int | None = None
    """Pretrain on only so many images, drawn alike for every seed; by default all."""
    holdout: int = 0
    """Training images set aside for validation, alike for every seed: pretraining never sees them."""

    # ---- method and loss
    method: Literal[
        "kernel-vicreg", "vicreg", "simclr", "swav", "moco", "byol", "dino", "simsiam", "barlow-twins", "ssl-hsic",
        "kernel-simclr", "kernel-byol", "kernel-barlow-twins", "supervised",
    ] = "kernel-vicreg"  # fmt: skip
    """Self-supervised method, or the supervised control."""
    kernel: str = "rbf"
    """Kernel: linear, polynomial, rbf, laplacian, rational_quadratic (rq), multi-rbf, self-tuning; or a mixture,
    rbf+linear or 0.3*rbf+0.7*linear."""
    learn_mixture: bool = False
    """Learn the shares of a mixture with the network."""
    per_dimension: bool = False
    """A scale of its own for each dimension of the embeddings: all count alike to the kernel."""
    gamma: float | None = None
    """The kernel's scale; by default the median heuristic (polynomial: 1 / width)."""
    bandwidth_momentum: float = 0.0
    """Smoothing of the median over steps, 0 (each batch's own) to below 1."""
    bandwidth_multiple: float = 1.0
    """The bandwidth in units of the median distance; above 1 the kernel sees coarser structure."""
    degree: int | None = None
    """Degree of the polynomial kernel."""
    coef0: float | None = None
    """Constant of the polynomial kernel."""
    alpha: float | None = None
    """Exponent of the rational quadratic kernel."""
    distance_norm: Literal[1, 2] | None = None
    """Norm inside the Laplacian kernel."""
    neighbours: int | None = None
    """Which neighbour's distance is the local scale of the self-tuning kernel."""
    parametrization: Literal["scaled", "paper"] = "scaled"
    """Kernel VICReg without units (scaled), or the equations as printed (paper)."""
    convention: Literal["official", "paper", "solo-learn"] = "official"
    """Which published form of VICReg, for --method vicreg."""
    invariance_weight: float | None = None
    """Weight of the invariance term; by default the loss's own."""
    variance_weight: float | None = None
    """Weight of the variance term; by default the loss's own."""
    covariance_weight: float | None = None
    """Weight of the covariance term; by default the loss's own."""
    threshold: float | None = None
    """Standard deviation the variance term asks for; by default the loss's own."""
    eps: float | None = None
    """Added under the square root of the variance term; by default the loss's own."""
    covariance: Literal["norm", "squared"] | None = None
    """Covariance term: Hilbert-Schmidt norm, or its square; by default the loss's own."""
    include_diagonal: bool | None = None
    """Keep the diagonal of the Gram matrix in the covariance term; by default the loss's own."""
    approximation: Literal["exact", "nystrom", "random-fourier"] = "exact"
    """How the kernel's operator is computed."""
    components: int = 128
    """Landmarks (nystrom) or features (random-fourier)."""

    groups: str | None = None
    """Group-fair terms: a text file with a group per training image, FILE.csv:COLUMN, or a column of its groups.csv."""
    group_weight: float | None = None
    """The groups' share of the variance and covariance terms, 0 to 1; by default the loss's own."""
    group_bandwidth: bool | None = None
    """The median heuristic within each group on its own."""

    # ---- the other methods; by default each method's own
    temperature: float | None = None
    """Temperature of simclr, moco, swav, dino (the student's), kernel-simclr."""
    teacher_temperature: float | None = None
    """Temperature of dino's teacher."""
    target_momentum: float | None = None
    """Momentum of the slow copy of moco, byol, dino, kernel-byol: at the start, where it rises."""
    queue: int | None = None
    """Embeddings of former batches kept by moco and, if given, swav."""
    prototypes: int | None = None
    """Prototypes of swav and dino."""
    frozen_steps: int | None = None
    """Steps before the prototypes of swav and dino begin to learn."""
    local_crops: int = 0
    """Smaller crops that swav and dino see beside the two views (multi-crop)."""
    predictor_hidden: int | None = None
    """Hidden width of the predictor of byol, simsiam, kernel-byol."""
    redundancy_weight: float | None = None
    """Weight of the redundancy term of barlow-twins and kernel-barlow-twins."""
    basis: Literal["free", "coordinates"] | None = None
    """How kernel-barlow-twins tells the diagonal: without a basis, or in the coordinates of explicit features."""
    spread_weight: float | None = None
    """Weight of HSIC(Z, Z) in ssl-hsic."""
    classes: int | None = None
    """Classes of the supervised control; by default the data's."""

    # ---- encoder and projector
    encoder: str = "small-cnn"
    """Encoder: small-cnn, resnet18, timm:NAME, torchvision:NAME."""
    width: float = 1.0
    """Factor on the encoder's channels."""
    stem: Literal["auto", "small", "imagenet"] = "auto"
    """First layers of ResNet-18; auto is small up to 64 pixels."""
    pool: int = 2
    """The small CNN's last map is averaged to pool x pool."""
    early_pool: int = 0
    """The small CNN's second map, averaged to early_pool x early_pool, is kept beside the last; 0 for not."""
    norm: Literal["batch", "group"] = "batch"
    """Normalisation; group uses no statistics of the batch."""
    projector_layers: int = 3
    """Linear layers of the projector."""
    projector_hidden: int = 1024
    """Width of the projector's hidden layers."""
    projector_outputs: int = 1024
    """Width of the embeddings."""
    projector_final: Literal["none", "batch", "length"] = "none"
    """What brings the embeddings to one scale: nothing, each coordinate over the batch, or each one's length."""
    init: str | None = None
    """Run folder or encoder.safetensors whose encoder weights to start from."""

    # ---- optimisation
    epochs: int = 20
    """Passes over the images."""
    max_steps: int | None = None
    """Stop after this many optimizer steps, even within an epoch; the schedule still spans all epochs."""
    batch_size: int = 512
    """Images per batch, over all processes."""
    accumulate: int = 1
    """Batches whose gradients are averaged per step; the loss sees each batch by itself."""
    optimizer: Literal["adam", "adamw", "sgd", "lars"] = "adam"
    """Optimizer."""
    learning_rate: float = 1e-3
    """Peak learning rate."""
    final_learning_rate: float = 0.0
    """Where the cosine ends."""
    warmup_epochs: float = 0.5
    """Epochs of linear warm-up."""
    weight_decay: float = 0.0
    """Weight decay, on weights but not on biases and normalisation."""
    momentum: float = 0.9
    """Momentum of sgd and lars."""
    clip: float | None = None
    """Largest norm of the gradient."""

    # ---- engine
    seed: int = 0
    """Seed of the weights, the order of the data and the views."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed", "64-true", "auto"] = "32-true"
    """Arithmetic of the encoder, auto: bf16-mixed where the hardware has it; the loss runs in at least float32."""
    accelerator: str = "auto"
    """cpu, gpu, ... as Lightning names them."""
    devices: int = 1
    """Devices (processes) per node."""
    nodes: int = 1
    """Machines."""
    strategy: str = "auto"
    """Lightning's strategy: ddp, ..."""
    timeout_minutes: float = 10.0
    """Longest that processes wait for each other before the training is given up."""
    channels_last: bool = True
    """Keep images with channels last in memory, which convolutions like."""
    compile: bool = False
    """torch.compile the encoder and the projector."""
    deterministic: bool = False
    """Only deterministic algorithms, for bit-equal runs on GPUs."""

    # ---- what is recorded
    out: str | None = None
    """Run folder; by default runs/DATA-METHOD."""
    log_every: int = 20
    """Steps between points in TensorBoard and in the progress line."""
    checkpoint_steps: int | None = None
    """Also write a checkpoint every so many steps within an epoch."""
    checkpoint_minutes: float = 5.0
    """Also write a checkpoint when this long has passed since the last."""
    spectrum_images: int = 256
    """Images of the fixed batch whose spectrum is recorded every epoch."""
    probe_images: int = 2000
    """Labelled training images for the online probe and k-NN (half fit, half score); 0 for none."""
    probe_every: int = 1
    """Epochs between online probes."""
    wandb: str | None = None
    """Weights & Biases project to log to."""

    def __post_init__(self) -> None:
        for name, value in [*vars(self).items(), *self.view.items()]:
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, got {value}")
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must be between 0 and {2**31 - 1}, got {self.seed}")
        if self.spectrum_images < 2 or self.batch_size < 2:
            raise ValueError("batch_size and spectrum_images must be at least 2: a spectrum needs several images")

    @property
    def uses_kernel(self) -> bool:
        """Whether the method has a kernel to choose."""
        return self.method.startswith("kernel-")

    @property
    def folder(self) -> Path:
        """The run folder."""
        source = Path(self.data).name or "images"
        method = self.kernel if self.method == "kernel-vicreg" else self.method
        method += f"-{self.kernel}" if self.uses_kernel and self.method != "kernel-vicreg" else ""
        return Path(self.out) if self.out else Path("runs") / f"{source}-{method.replace('*', '')}"


@dataclass(kw_only=True)
class TrainFlags(TrainConfig):
    """What `kvicreg train` understands beside the settings of a run."""

    config: str | None = None
    """Recipe to start from: a shipped one by name, or a YAML file; flags change it."""
    resume: str | None = None
    """Run folder to continue from its last checkpoint, exactly; takes no other flag."""
    overwrite: bool = False
    """Replace the run folder if it exists."""
    dry_run: bool = False
    """Print the resolved config and an estimate of time and memory, and stop."""

    @property
    def settings(self) -> TrainConfig:
        """The settings of the run alone."""
        return TrainConfig(**{f.name: getattr(self, f.name) for f in dataclasses.fields(TrainConfig)})


def from_dict(values: dict[str, Any], source: str = "config") -> TrainConfig:
    """A TrainConfig out of a recipe's keys; an unknown key or a value of the wrong type is an error."""
    hints = typing.get_type_hints(TrainConfig)
    for key, value in values.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "kvicreg train --help lists them all."
            raise ValueError(f"{source}: there is no setting {key!r}; {hint}")
        values = values | {key: _checked(value, hints[key], f"{source}: {key}")}
    return TrainConfig(**values)


def load_config(name_or_path: str | Path) -> TrainConfig:
    """Read a recipe: one of the shipped ones by name, or any YAML file of settings."""
    path, name = Path(name_or_path), str(name_or_path)
    if path.is_file():
        return from_dict(_read_yaml(path), name)
    shipped = _shipped()
    if name not in shipped:
        near = difflib.get_close_matches(name, shipped, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"shipped recipes: {', '.join(shipped)}."
        raise FileNotFoundError(f"config {name!r} is neither a file nor a shipped recipe; {hint}")
    return from_dict(shipped[name], f"recipe {name}")


def recipes() -> list[str]:
    """Names of the shipped recipes."""
    return list(_shipped())


def _shipped() -> dict[str, dict[str, Any]]:
    """Shipped recipes by name; names that begin with a dot are parts shared by others."""
    files = [_read_yaml(path) for path in sorted(RECIPES.glob("*.yaml"))]
    return {name: recipe for file in files for name, recipe in file.items() if not name.startswith(".")}


def _read_yaml(path: Path) -> dict[str, Any]:
    values = read_yaml(path) or {}
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected lines like 'epochs: 20', got {type(values).__name__}")
    return values


def dump_config(config: TrainConfig) -> str:
    """The config as YAML, in the order of its fields, ready for `load_config`."""
    import yaml

    return yaml.safe_dump(dataclasses.asdict(config), sort_keys=False, allow_unicode=True)


def _checked(value: Any, hint: Any, where: str) -> Any:
    """The value as the hinted type, or a ValueError that says what was expected."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in options:
            return None
        return _checked(value, next(o for o in options if o is not type(None)), where)
    if origin is Literal:
        if value not in options:
            near = difflib.get_close_matches(str(value), [str(o) for o in options], n=1)
            hint_text = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{where}: expected one of {', '.join(map(str, options))}, got {value!r}{hint_text}")
        return value
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError(f"{where}: expected a table of names and numbers, got {value!r}")
        return {str(k): _checked(v, options[1], f"{where}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, str):  # YAML 1.1 reads 1e-3 as a string
        try:
            return float(value)
        except ValueError:
            pass
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ValueError(f"{where}: expected {hint.__name__}, got {value!r}")
    return value
