"""What a training says of itself before it begins."""

from __future__ import annotations

from kvicreg.data import ImageData, Views
from kvicreg.data.images import ONE_CLASS
from kvicreg.methods import Method
from kvicreg.methods.siamese import Siamese
from kvicreg.models.encoder import feature_dim
from kvicreg.runs import Settings
from kvicreg.runs.start import unlike_start
from kvicreg.storage import counted

__all__ = ["opening_lines"]

FEW, SMALL_BATCH = 1000, 32


def opening_lines(settings: Settings, data: ImageData, views: Views, method: Method) -> list[str]:
    """The method, the images and the network, and whatever of them may surprise."""
    schedule, size = settings.schedule, settings.schedule.batch_size_for(len(data))
    c, h, w = data.shape
    encoder, projector = (sum(p.numel() for p in part.parameters()) for part in (method.encoder, method.projector))
    lines = [
        f"{settings.method.describe()} on {data.name}: {counted(len(data), 'image')} {c}x{h}x{w}; "
        f"{settings.model.encoder.choice}, {encoder:,} parameters, features of width {feature_dim(method.encoder):,} "
        f"(projector: {projector:,} more); "
        f"{counted(schedule.total_epochs, 'epoch')} of batches of {size}."
    ]
    if len(data) < FEW:
        lines.append(
            f"{len(data):,} images are few: expect an encoder that tells these apart and knows little beyond them. "
            "kvicreg evaluate has the untrained encoder beside it"
            + ("." if settings.model.has_start else "; --init starts from a run on more images.")
        )
    if size < SMALL_BATCH and isinstance(method, Siamese):
        lines.append(
            f"Batches of {size} are small: the loss compares the images of a batch with each other, and learns little "
            "from so few. Use 64 or more (--batch-size), with more images where there are not enough."
        )
    if data.is_of_one_class:
        lines.append(f"{ONE_CLASS.capitalize()}: accuracy is not measured.")
    lines += getattr(method.encoder, "notes", [])
    lines += unlike_start(settings.model, data.shape)
    if settings.model.has_start:
        lines.append(f"Images are normalized by the mean and deviation {settings.model.normalize}.")
    if schedule.accumulate > 1:
        lines.append(
            f"Gradients of {schedule.accumulate} batches are averaged per step. Each batch has its own loss, over "
            f"its {size} images: not the loss of one batch of {schedule.accumulate * size}."
        )
    lines += data.notes
    stored = data.for_views().shape[1]
    if stored > h or data.cache_bytes:
        lines.append(
            f"Views are cropped from {stored}x{stored} pixels of each image; decoded ones take up to "
            f"{data.cache_bytes / 1e6:,.0f} MB (cache_mb) in each process."
        )
    if views.skipped:
        lines.append(f"Views of {counted(c, 'channel')} leave out: {', '.join(views.skipped)}.")
    return lines
