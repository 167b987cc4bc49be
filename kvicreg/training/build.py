"""From settings to the objects of a run: views, groups, encoder, projector, method."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from kvicreg.data import ImageData, Views
from kvicreg.data.addresses import key
from kvicreg.measures.features import recorded_source
from kvicreg.methods import Method
from kvicreg.models.encoder import feature_dim
from kvicreg.models.given import GivenEncoder
from kvicreg.runs import Settings
from kvicreg.runs.encoder import fill_encoder

__all__ = ["build_groups", "build_method", "build_views", "resolve"]


FEWEST = 16


def build_views(settings: Settings, data: ImageData) -> Views:
    """The random views of the settings on their data."""
    return Views.of(data, settings.views.config(data.name))


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
    if settings.schedule.batch_size is None and len(data) < FEWEST:
        raise ValueError(
            f"{len(data)} images are too few: training needs at least {FEWEST}, and does well with thousands"
        )
    batch_size = settings.schedule.batch_size_for(len(data), settings.engine.devices * settings.engine.nodes)
    if len(data) < batch_size:
        raise ValueError(
            f"batch_size {batch_size} is more than the {len(data)} images of {data.name!r}; "
            f"pass a smaller one, such as --batch-size {max(2, 2 ** (len(data).bit_length() - 2))}"
        )
    channels, image_size = data.shape[:2]
    deep = data.intensity if data.loaded_by is not None else None  # of images from Python no setting tells the range
    classes = None if data.labels is None else int(data.labels.max()) + 1
    method = settings.method.resolved(classes)
    architecture = settings.model.encoder if encoder is None else GivenEncoder(module=type(encoder).__name__)
    model = replace(settings.model, encoder=architecture.resolved(image_size))
    return replace(settings, method=method, model=model).replace(
        data=recorded_source(data, settings.data),
        batch_size=batch_size,
        image_size=image_size,
        channels=channels,
        **({} if deep is None else {"intensity": deep.text}),
        precision=_precision(settings),
        out=str(settings.folder),
        **views.config.flat(),
    )


def _precision(settings: Settings) -> str:
    """The arithmetic asked for; for auto, bfloat16 where a processor has instructions for it, else it is slow."""
    if settings.engine.precision != "auto":
        return settings.engine.precision
    if torch.cuda.is_available() and settings.engine.accelerator != "cpu":
        is_fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        is_fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16-mixed" if is_fast else "32-true"


def build_method(settings: Settings, encoder: nn.Module | None = None) -> Method:
    """Encoder (or the given one), projector and loss, with weights that depend on the seed alone."""
    torch.manual_seed(key(settings.engine.seed) >> 1)
    model, data = settings.model, settings.data
    if encoder is None:
        assert data.channels is not None
        assert data.image_size is not None
        encoder = model.encoder.build(data.channels, data.image_size, model.norm)
    projector = model.projector.build(feature_dim(encoder), model.norm)
    if model.init is not None:
        fill_encoder(encoder, model.init)
    return settings.method.build(encoder, projector, norm=model.norm, seed=settings.engine.seed)
