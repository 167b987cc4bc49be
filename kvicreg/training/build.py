"""From a config to the objects of a run: kernel, loss, encoder, projector, method."""

from __future__ import annotations

import inspect
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kvicreg import kernels, operators
from kvicreg.data import ArrayData, ImageData, Views, first_images, hold_out, load, view_config
from kvicreg.data.addresses import key
from kvicreg.evaluation.fairness import read_groups
from kvicreg.methods import METHODS, Method, Supervised
from kvicreg.models import Projector, build_encoder
from kvicreg.models.storage import load_weights
from kvicreg.training.config import TrainConfig, load_config

METHOD_SETTINGS = (
    "temperature", "teacher_temperature", "target_momentum", "queue", "prototypes", "frozen_steps", "predictor_hidden",
    "redundancy_weight", "basis", "spread_weight", "classes", "group_weight", "group_bandwidth",
)  # fmt: skip
"""Settings that only some methods have: given to another they are a mistake."""


def build_data(config: TrainConfig) -> ImageData:
    """The images a config pretrains on."""
    return _part(_whole(config), config)


def _whole(config: TrainConfig) -> ImageData:
    return load(
        config.data, config.split, root=config.data_root, image_size=config.image_size, channels=config.channels
    )


def _part(data: ImageData, config: TrainConfig) -> ImageData:
    """What is left of the images without those held out, or so many of them as the config says."""
    data, _ = hold_out(data, config.holdout)
    return data if config.images is None else first_images(data, config.images)


def build_views(config: TrainConfig, data: ImageData) -> Views:
    """The random views of a config on its data."""
    preset = data.name if config.views == "auto" else config.views
    return Views.of(data, view_config(preset, config.view))


def build_groups(config: TrainConfig, data: ImageData) -> Tensor | None:
    """The group of each training image as a number, where the config names groups."""
    if config.groups is None:
        return None
    if config.method != "kernel-vicreg":
        raise ValueError(f"groups are for the terms of kernel-vicreg; the method {config.method} has none")
    if config.images is None and config.holdout == 0:
        names = read_groups(config.groups, data)
    else:  # groups are told of all images: take the same part of them
        whole = _whole(config)
        told = read_groups(config.groups, whole)
        numbered = ArrayData(torch.zeros(len(whole), 1, 1, 1, dtype=torch.uint8), torch.arange(len(whole)))
        kept = _part(numbered, config).labels
        assert kept is not None
        names = [told[i] for i in kept.tolist()]
    number = {name: i for i, name in enumerate(sorted(set(names)))}
    return torch.tensor([number[name] for name in names])


def resolve(config: TrainConfig, data: ImageData, views: Views) -> TrainConfig:
    """The config with what the data decide filled in, so that config.yaml says everything."""
    if len(data) < config.batch_size:
        raise ValueError(
            f"batch_size {config.batch_size} is more than the {len(data)} images of {data.name!r}; "
            f"pass a smaller one, such as --batch-size {max(2, 2 ** (len(data).bit_length() - 2))}"
        )
    return replace(
        config,
        **_resolved_method(config, data),
        image_size=data.shape[1],
        channels=data.shape[0],  # type: ignore[arg-type]
        view=asdict(views.config),
        precision=_fast_precision(config) if config.precision == "auto" else config.precision,
        out=str(config.folder),
    )


def _fast_precision(config: TrainConfig) -> Literal["bf16-mixed", "32-true"]:
    """bfloat16 where it is quick: a processor without instructions for it takes many times as long."""
    if torch.cuda.is_available() and config.accelerator != "cpu":
        quick = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        quick = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16-mixed" if quick else "32-true"


def build_kernel(config: TrainConfig) -> kernels.Kernel:
    """The kernel with the options given; an option it does not have is an error."""
    options: dict[str, Any] = {
        "gamma": config.gamma,
        "degree": config.degree,
        "coef0": config.coef0,
        "alpha": config.alpha,
        "norm": config.distance_norm,
    }
    options["neighbours"] = config.neighbours
    if config.bandwidth_momentum or config.bandwidth_multiple != 1:
        if config.gamma is not None:
            raise ValueError(
                "bandwidth_momentum and bandwidth_multiple change the median, so they can't go with a fixed gamma"
            )
        options["gamma"] = kernels.Median(multiple=config.bandwidth_multiple, momentum=config.bandwidth_momentum)
    if config.learn_mixture and config.method != "kernel-vicreg":
        raise ValueError(f"learn_mixture is for kernel-vicreg; under {config.method} the shares would follow its loss")
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return kernels.make(config.kernel, learnable=config.learn_mixture, per_dimension=config.per_dimension, **given)
    except ValueError as error:  # the kernel's "norm" is another setting here
        raise ValueError(str(error).replace(" norm", " distance_norm")) from None


def build_loss(config: TrainConfig) -> nn.Module:
    """The loss of a config; settings left out keep the loss's own defaults."""
    return METHODS[config.method].Loss(**_arguments(config, METHODS[config.method].Loss))


def with_loss_defaults(config: TrainConfig) -> TrainConfig:
    """The config with the loss's own defaults filled in where it leaves them open."""
    loss = build_loss(config)
    names = [name for name in _settings(type(loss)) if name not in ("kernel", "approximation")]
    return replace(config, **{name: getattr(loss, name) for name in names})


def is_run_of(folder: Path, config: TrainConfig) -> bool:
    """Whether a run folder was made with these settings; what the config leaves open may be anything."""
    if not (folder / "config.yaml").is_file():
        return False
    kept, asked = vars(load_config(folder / "config.yaml")), vars(with_loss_defaults(config))
    of_view = all(kept["view"].get(name) == value for name, value in config.view.items())
    elsewhere = ("out", "view", "data_root", *(["precision"] if config.precision == "auto" else []))
    return of_view and all(v is None or v == kept[name] for name, v in asked.items() if name not in elsewhere)


def _approximation(config: TrainConfig) -> operators.Approximation | None:
    if config.approximation == "nystrom":
        return operators.Nystrom(landmarks=config.components, seed=config.seed)
    if config.approximation == "random-fourier":
        return operators.RandomFourier(features=config.components, seed=config.seed)
    return None


def _arguments(config: TrainConfig, maker: type[nn.Module]) -> dict[str, Any]:
    """The settings of a config that are arguments of a loss or a method by the same name, where they are given."""
    found = {name: getattr(config, name) for name in _settings(maker)}
    if "kernel" in found:
        found |= {"kernel": build_kernel(config), "approximation": _approximation(config)}
    return {name: value for name, value in found.items() if value is not None}


def _settings(maker: type[nn.Module]) -> list[str]:
    """The settings that a loss or a method takes by name."""
    known = {field.name for field in fields(TrainConfig)} - {"encoder"}  # a method is given the module itself
    return [name for name in inspect.signature(maker).parameters if name in known]


def _resolved_method(config: TrainConfig, data: ImageData) -> dict[str, Any]:
    """The settings of the config's loss and method, with their defaults and what the data decide."""
    method, filled = METHODS[config.method], with_loss_defaults(config)
    of_loss, of_method = _settings(method.Loss), _settings(method)
    for name in METHOD_SETTINGS:
        if getattr(config, name) not in (None, 0) and name not in (*of_loss, *of_method):
            raise ValueError(f"the method {config.method} has no {name}")
    if config.local_crops and not method.many_views:
        raise ValueError(f"the method {config.method} takes two views, so it has no local_crops")
    resolved = {name: getattr(filled, name) for name in of_loss}
    for name in of_method:
        if getattr(config, name) is None:
            resolved[name] = inspect.signature(method).parameters[name].default
    if method is Supervised:
        if data.labels is None:
            raise ValueError(f"the supervised control needs labels, and {data.name!r} has none")
        resolved["classes"] = config.classes or int(data.labels.max()) + 1
    return resolved


def build_method(config: TrainConfig, encoder: nn.Module | None = None) -> Method:
    """Encoder (or the given one), projector and loss, with weights that depend on the seed alone."""
    torch.manual_seed(key(config.seed) >> 1)
    if encoder is None:
        assert config.channels is not None
        assert config.image_size is not None
        encoder = build_encoder(
            config.encoder,
            config.channels,
            config.image_size,
            width=config.width,
            stem=config.stem,
            pool=config.pool,
            norm=config.norm,
            early_pool=config.early_pool,
        )
    projector = Projector(
        int(encoder.feature_dim),  # type: ignore[arg-type]
        config.projector_hidden,
        config.projector_outputs,
        config.projector_layers,
        config.norm,
        config.projector_final,
    )
    if config.init is not None:
        load_weights(encoder, config.init)
    method = METHODS[config.method]
    return method(encoder, projector, build_loss(config), **_arguments(config, method))
