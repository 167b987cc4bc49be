"""From a config to the objects of a run: kernel, loss, encoder, projector, method."""

from __future__ import annotations

import inspect
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import nn

from kvicreg import kernels, operators
from kvicreg.data import ImageData, Views, load, view_config
from kvicreg.data.addresses import key
from kvicreg.losses import KernelVICRegLoss, VICRegLoss
from kvicreg.methods import KernelVICReg, Method, VICReg
from kvicreg.models import Projector, build_encoder
from kvicreg.models.storage import load_weights
from kvicreg.training.config import TrainConfig


def build_data(config: TrainConfig) -> ImageData:
    """The training images of a config."""
    return load(
        config.data,
        config.split,
        root=config.data_root,
        image_size=config.image_size,
        channels=config.channels,
    )


def build_views(config: TrainConfig, data: ImageData) -> Views:
    """The random views of a config on its data."""
    preset = data.name if config.views == "auto" else config.views
    return Views.of(data, view_config(preset, config.view))


def resolve(config: TrainConfig, data: ImageData, views: Views) -> TrainConfig:
    """The config with what the data decide filled in, so that config.yaml says everything."""
    if len(data) < config.batch_size:
        raise ValueError(
            f"batch_size {config.batch_size} is more than the {len(data)} images of {data.name!r}; "
            f"pass a smaller one, such as --batch-size {max(2, 2 ** (len(data).bit_length() - 2))}"
        )
    loss = build_loss(config)
    return replace(
        config,
        **{name: getattr(loss, name) for name in _loss_settings(config)},
        image_size=data.shape[1],
        channels=data.shape[0],  # type: ignore[arg-type]
        view=asdict(views.config),
        out=str(config.folder),
    )


def build_kernel(config: TrainConfig) -> kernels.Kernel:
    """The kernel with the options given; an option it does not have is an error."""
    options: dict[str, Any] = {
        "gamma": config.gamma,
        "degree": config.degree,
        "coef0": config.coef0,
        "alpha": config.alpha,
        "norm": config.distance_norm,
    }
    if config.bandwidth_momentum:
        if config.gamma is not None:
            raise ValueError("bandwidth_momentum smooths the median, so it can't go with a fixed gamma")
        options["gamma"] = kernels.Median(momentum=config.bandwidth_momentum)
    chosen = type(kernels.get(config.kernel))
    options = {name: value for name, value in options.items() if value is not None}
    unknown = set(options) - set(inspect.signature(chosen).parameters)
    if unknown:
        flags = {"norm": "distance_norm"}
        names = ", ".join(sorted(flags.get(name, name) for name in unknown))
        raise ValueError(f"the {config.kernel} kernel has no {names}")
    return chosen(**options)


def build_loss(config: TrainConfig) -> nn.Module:
    """The loss of a config; settings left out keep the loss's own defaults."""
    settings = {name: getattr(config, name) for name in _loss_settings(config)}
    given = {name: value for name, value in settings.items() if value is not None}
    if config.method == "vicreg":
        return VICRegLoss(convention=config.convention, **given)
    approximation: operators.Approximation | None = None
    if config.approximation == "nystrom":
        approximation = operators.Nystrom(landmarks=config.components)
    elif config.approximation == "random-fourier":
        approximation = operators.RandomFourier(features=config.components)
    return KernelVICRegLoss(
        kernel=build_kernel(config), parametrization=config.parametrization, approximation=approximation, **given
    )


def _loss_settings(config: TrainConfig) -> list[str]:
    """The config's fields that are arguments, and attributes, of its loss by the same name."""
    weights = ["invariance_weight", "variance_weight", "covariance_weight", "threshold", "eps"]
    return weights + (["covariance", "include_diagonal"] if config.method == "kernel-vicreg" else [])


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
        )
    projector = Projector(
        int(encoder.feature_dim),  # type: ignore[arg-type]
        config.projector_hidden,
        config.projector_outputs,
        config.projector_layers,
        config.norm,
    )
    if config.init is not None:
        load_weights(encoder, config.init)
    loss: Any = build_loss(config)
    return (
        KernelVICReg(encoder, projector, loss) if config.method == "kernel-vicreg" else VICReg(encoder, projector, loss)
    )
