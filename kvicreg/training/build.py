"""From settings to the objects of a run: views, groups, encoder, projector, method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from kvicreg.data import ImageData, Views
from kvicreg.data.addresses import key
from kvicreg.measures.features import recorded_source
from kvicreg.methods import Method
from kvicreg.models.blocks import blocks, frozen_blocks
from kvicreg.models.encoder import feature_dim
from kvicreg.models.given import GivenEncoder
from kvicreg.runs import Settings
from kvicreg.runs.settings import read_normalization
from kvicreg.runs.start import fill_with_start, start_normalization

__all__ = ["build_groups", "build_method", "build_views", "check_count", "learning_rates", "resolve"]


FEWEST = 16


def build_views(settings: Settings, data: ImageData) -> Views:
    """The random views of the settings on their data."""
    config, normalize = settings.views.config(data.name, data.shape[2]), settings.model.normalize
    numbers = start_normalization(settings.model, data.shape[0]) if normalize is None else None
    if normalize not in (None, "data"):
        numbers = read_normalization(normalize)
        if len(numbers.mean) != data.shape[0]:
            raise ValueError(f"normalize: {data.name} has {data.shape[0]} channels, got {len(numbers.mean)} means")
    if numbers is None:
        return Views.of(data, config)
    return Views(config, size=data.shape[2], mean=numbers.mean, std=numbers.std)


def build_groups(settings: Settings, data: ImageData) -> Tensor | None:
    """The group of each training image as a number, where the settings name groups."""
    source = getattr(settings.method, "groups", None)
    if source is None:
        return None
    names = settings.data.groups(source, data)
    number = {name: i for i, name in enumerate(sorted(set(names)))}
    return torch.tensor([number[name] for name in names])


def resolve(settings: Settings, data: ImageData, views: Views, encoder: nn.Module | None = None) -> Settings:
    """The settings with what the data and the machine decide filled in, so that the run's config says everything.

    Images that the settings do not load, and an encoder that they do not build, are recorded as given from Python.
    """
    settings = settings.usual()
    batch_size = check_count(settings, data)
    channels, image_size = data.shape[:2]
    deep = data.intensity if data.loaded_by is not None else None  # of images from Python no setting tells the range
    classes = None if data.labels is None else int(data.labels.max()) + 1
    method = settings.method.resolved(classes)
    architecture = settings.model.encoder if encoder is None else GivenEncoder(module=type(encoder).__name__)
    model = replace(settings.model, encoder=architecture.resolved(image_size))
    return replace(settings, method=method, model=model).replace(
        normalize=model.normalize or (_text(views) if model.has_start else "data"),
        data=recorded_source(data, settings.data),
        batch_size=batch_size,
        image_size=image_size,
        channels=channels,
        **({} if deep is None else {"intensity": deep.text}),
        precision=_precision(settings),
        out=str(settings.folder),
        **views.config.flat(),
    )


def check_count(settings: Settings, data: ImageData) -> int:
    """The batch size, for which there must be images enough."""
    if settings.schedule.batch_size is None and len(data) < FEWEST:
        raise ValueError(
            f"{len(data)} images are too few: training needs at least {FEWEST}, and does well with thousands"
        )
    batch_size = settings.schedule.batch_size_for(len(data), settings.engine.processes)
    if len(data) < batch_size:
        raise ValueError(
            f"batch_size {batch_size} is more than the {len(data)} images of {data.name!r}; "
            f"pass a smaller one, such as --batch-size {max(2, 2 ** (len(data).bit_length() - 2))}"
        )
    return batch_size


def _precision(settings: Settings) -> str:
    """The arithmetic asked for; for auto, bfloat16 where a processor has instructions for it, else it is slow."""
    if settings.engine.precision not in (None, "auto"):
        return str(settings.engine.precision)
    if torch.cuda.is_available() and settings.engine.accelerator != "cpu":
        is_fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        is_fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16-mixed" if is_fast else "32-true"


def _text(views: Views) -> str:
    """The normalization of views as a setting."""
    return "/".join(",".join(f"{number:g}" for number in numbers) for numbers in (views.mean, views.std))


def build_method(settings: Settings, encoder: nn.Module | None = None, *, start: bool = True) -> Method:
    """Encoder (or the given one), projector and loss, with weights that depend on the seed alone.

    The encoder's `notes` are sentences on the weights that it starts from, and on what of it does not learn.

    Args:
        settings: resolved.
        encoder: a module of somebody's own, in place of the settings'.
        start: fill the encoder with the weights that the settings start from; not needed before a checkpoint's.
    """
    torch.manual_seed(key(settings.engine.seed) >> 1)
    model, data = settings.model, settings.data
    if encoder is None:
        assert data.channels is not None
        assert data.image_size is not None
        encoder = model.encoder.build(data.channels, data.image_size, model.norm)
    projector = model.projector.build(feature_dim(encoder), model.norm)
    notes = fill_with_start(encoder, model) if start else []
    if model.checkpoint_activations:
        _compute_again(encoder)
    frozen = frozen_blocks(encoder, model.freeze)
    for parameter in (p for block in frozen for p in block.parameters):
        parameter.requires_grad_(False)
    if frozen:
        count = sum(p.numel() for block in frozen for p in block.parameters)
        names = frozen[0].name if len(frozen) == 1 else f"{frozen[0].name} to {frozen[-1].name}"
        notes.append(f"Frozen: {names}, {count / max(1, _numbers(encoder.parameters())):.0%} of the encoder.")
    cast(Any, encoder).notes = [*getattr(encoder, "notes", ()), *notes]
    return settings.method.build(encoder, projector, norm=model.norm, seed=settings.engine.seed)


def _compute_again(encoder: nn.Module) -> None:
    """Have an encoder compute its activations again in the backward pass."""
    if not hasattr(encoder, "set_grad_checkpointing"):
        raise ValueError(
            f"checkpoint_activations: {type(encoder).__name__} has no set_grad_checkpointing(), as resnet18, resnet50, "
            "models of timm and most of transformers have"
        )
    cast(Any, encoder).set_grad_checkpointing(True)


def learning_rates(method: Method, settings: Settings) -> dict[nn.Parameter, dict[str, Any]]:
    """What sets parameters of the encoder apart for the optimizer: a `rate` of their block, that they wait."""
    about: dict[nn.Parameter, dict[str, Any]] = {}
    decay, parts = settings.optimizer.layer_decay, blocks(method.encoder)
    waits = {"waits": True} if settings.schedule.projector_epochs > 0 else {}
    for depth, block in enumerate(reversed(parts)):
        rate = {"rate": decay**depth} if decay < 1 else {}
        about |= {parameter: {**rate, **waits} for parameter in block.parameters if rate or waits}
    return about


def _numbers(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)
