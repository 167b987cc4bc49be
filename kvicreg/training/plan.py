"""What a training leaves open is chosen from the images and the machine before anything large is allocated."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import torch
from torch import nn

from kvicreg.data import ImageData, Views
from kvicreg.data.catalogue import DATA_SETS
from kvicreg.measures.features import is_loaded_by
from kvicreg.models.cnn import AutoOptions
from kvicreg.models.resnet import ResNet18Options
from kvicreg.runs import Settings
from kvicreg.runs.durations import in_words, minutes
from kvicreg.runs.start import check_start, like_start
from kvicreg.storage import counted
from kvicreg.training.approximation import choose_approximation
from kvicreg.training.build import build_views, check_count, resolve
from kvicreg.training.cost import Clock, Cost, device_of, measure, unknown_cost
from kvicreg.training.faults import is_out_of_memory
from kvicreg.training.memory import available_bytes, total_bytes, used_bytes

__all__ = ["Plan", "plan"]

SMALL = {"cpu": 96, "cuda": 40}
"""Images of up to so many pixels a side get the small CNN, larger ones ResNet-18."""
IMAGE_SIZE = {"cpu": 64, "cuda": 224}
WIDTH = {"cpu": 0.5, "cuda": 1.0}
BATCH_SIZE = {"cpu": 64, "cuda": 512}
TIME = {"cpu": "15m", "cuda": "1h"}
"""The defaults for photographs; those of a CPU are the best of the table in docs/training.md, those of a GPU custom."""
SMALLEST_IMAGE = 40
"""Images are made no smaller than this to fit into memory; up to it a CPU can afford ResNet-18's small stem."""
MOST_EPOCHS = 200
SMALLEST_BATCH = 32
"""Where memory is short, images are made smaller before batches become smaller than this."""
SECONDS_TO_SAVE = 0.5
"""Of an epoch: its checkpoints and records."""


class Plan(NamedTuple):
    """Settings that fit the machine, their images and views, what a step costs, and sentences on the choice."""

    settings: Settings
    data: ImageData
    views: Views
    cost: Cost
    lines: list[str]


def plan(
    settings: Settings,
    data: ImageData | None = None,
    *,
    encoder: nn.Module | None = None,
    time: str | None = None,
    clock: Clock | None = None,
    quiet: bool = False,
) -> Plan:
    """Choose what the settings leave open; what they fix is kept, and refused where it can't fit into memory.

    Data sets known by name keep their usual settings, except for the length where a time is given.

    Args:
        settings: those of the training.
        data: images from Python, in place of the settings'.
        encoder: a module from Python, in place of the settings'; it is not run before it trains: nothing is measured.
        time: how long the training may take, such as "30m"; by default `TIME` for images of one's own.
        clock: see `measure`.
        quiet: nobody reads how long it will take, so that it is measured only where a choice depends on it.
    """
    if time is not None:
        _check_time(settings, encoder)
    check_start(settings.model)
    settings = like_start(settings)
    data = settings.data.load() if data is None else data
    is_own = not is_loaded_by(settings.data, data) or settings.data.source not in DATA_SETS
    check_count(settings, data)
    device, side = device_of(settings), getattr(data, "stored_size", data.shape[1])
    about = f"{counted(len(data), 'image')} of {side} pixels"
    wanted, cost = chosen(settings, data, device) if is_own else settings, unknown_cost(settings)
    by_time = settings.flat().get("approximation") == "auto"
    timed = by_time or settings.schedule.epochs is None or not quiet
    while True:
        if is_loaded_by(wanted.data, data) and wanted.data.image_size not in (None, data.shape[1]):
            data = wanted.data.load()
        views = build_views(wanted, data)
        if encoder is None:
            cost = small_steps(resolve(wanted, data, views), data, views, clock, timed=timed)
        fitted = fit_memory(wanted, data, cost, settings)
        if fitted.data.image_size == wanted.data.image_size:
            break
        wanted = fitted
    if settings.schedule.epochs is None and (is_own or time is not None) and cost.is_known:
        fitted = fit_time(fitted, data, cost, 60 * minutes(time or TIME[device.type]))
        if fitted.data.images != settings.data.images:
            data = fitted.data.load()
            views = build_views(fitted, data)
    lines = describe(fitted, data, cost, settings, about)
    if by_time:
        fitted, why = choose_approximation(fitted, cost, batch_size(fitted, data), clock)
        lines.append(why)
    return Plan(fitted, data, views, cost, lines)


def _check_time(settings: Settings, encoder: nn.Module | None) -> None:
    """Refuse a time where the epochs don't follow from it."""
    if settings.schedule.epochs is not None:
        raise ValueError("time and epochs both say how long to train: give one of them")
    if encoder is not None:
        raise ValueError("time: an encoder from Python is not timed before it trains; give epochs")
    if settings.engine.processes > 1:
        raise ValueError(
            "time: each of several processes would come to epochs of its own; give --epochs, and --time-limit to stop "
            "when a time is over"
        )


def small_steps(settings: Settings, data: ImageData, views: Views, clock: Clock | None, *, timed: bool = True) -> Cost:
    """What a step costs, where at least a small one fits."""
    try:
        return measure(settings, data, views, clock, timed=timed)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        free = available_bytes(device_of(settings)) or 0
        raise ValueError(
            f"not even a few images of {data.shape[1]} pixels fit into the {gigabytes(free)} of free memory; a smaller "
            "--image-size or --encoder would fit"
        ) from error


def chosen(settings: Settings, data: ImageData, device: torch.device) -> Settings:
    """The settings with size, encoder, stem, batch size, precision and workers for images of one's own."""
    side, encoder = data.shape[1], settings.model.encoder
    is_loaded = is_loaded_by(settings.data, data)  # images from Python stay as they are
    size = (settings.data.image_size or min(side, IMAGE_SIZE[device.type])) if is_loaded else side
    changes: dict[str, Any] = {"image_size": size}
    if is_loaded and (free := available_bytes(torch.device("cpu"))) is not None:
        data.cache_limit = min(data.cache_limit, free // 4)
        changes |= {"cache_mb": data.cache_limit // 10**6}
    if isinstance(encoder, AutoOptions) and not encoder.given():
        larger = {"encoder": "resnet18", "width": WIDTH[device.type], "stem": "imagenet"}
        changes |= larger if size > SMALL[device.type] else {"encoder": "small-cnn"}
    elif isinstance(encoder, ResNet18Options) and encoder.stem == "auto" and device.type == "cpu":
        changes |= {"stem": "imagenet" if size > SMALLEST_IMAGE else "small"}  # which costs sixteen times as much
    flat = settings.flat()
    usual = {
        "precision": "auto" if is_loaded else "32-true",
        "workers": 0 if data.in_memory else min(4, cores()),
        "batch_size": batch_size(settings, data, BATCH_SIZE[device.type]),
    }
    return settings.replace(**changes, **{name: value for name, value in usual.items() if flat[name] is None})


def fit_memory(wanted: Settings, data: ImageData, cost: Cost, fixed: Settings) -> Settings:
    """The wanted settings with smaller batches or images, if they must be and `fixed` leaves them open."""
    free, total = available_bytes(cost.device), total_bytes(cost.device)
    if free is None or total is None or cost.image_bytes is None:
        return wanted
    batch, size, processes = batch_size(wanted, data), data.shape[1], wanted.engine.processes
    share = processes if cost.device.type == "cuda" else wanted.engine.nodes  # of the processes, on a machine's memory
    cache = 0 if cost.device.type == "cuda" or wanted.data.cache_folder else data.cache_bytes
    room = (free if fixed.schedule.batch_size else min(free, total // 2)) - cache
    most = cost.largest_batch(room) * share
    if batch <= most:
        return wanted
    if fixed.schedule.batch_size is None and most >= SMALLEST_BATCH and processes == 1:
        return wanted.replace(batch_size=most // 8 * 8)
    if fixed.data.image_size is None and is_loaded_by(wanted.data, data) and size > SMALLEST_IMAGE and processes == 1:
        return wanted.replace(image_size=max(SMALLEST_IMAGE, size * 2 // 3))
    smaller = [f"--batch-size {most // 8 * 8 or most}"] if most >= 2 else []
    side = int(size * math.sqrt(max(0, cost.largest_batch(room)) * share / batch)) // 8 * 8
    smaller += [f"--image-size {side}"] if side >= 16 else ["a smaller --encoder"]
    raise ValueError(
        f"batches of {batch} images of {size} pixels need about {gigabytes(cost.bytes(batch // share))} of memory, and "
        f"{gigabytes(max(0, room))} are there for them; {' or '.join(smaller)} would fit"
    )


def fit_time(settings: Settings, data: ImageData, cost: Cost, seconds: float) -> Settings:
    """The settings with as many epochs as fit into the time; with fewer images where not even one does."""
    if settings.engine.processes > 1:
        return settings  # each process would come to a number of its own
    per_epoch, reading = epoch_seconds(settings, data, cost), reading_seconds(settings, data, cost)
    if per_epoch + reading > 1.1 * seconds and is_loaded_by(settings.data, data) and settings.data.images is None:
        images = int(len(data) * seconds / (per_epoch + reading))
        if images >= 4 * batch_size(settings, data):
            return settings.replace(epochs=1, images=images)
    return settings.replace(epochs=max(1, min(MOST_EPOCHS, round((seconds - reading) / per_epoch))))


def epoch_seconds(settings: Settings, data: ImageData, cost: Cost) -> float:
    """The time of an epoch with what is measured at its end, where an image is seen forward only, once."""
    size, record = batch_size(settings, data), settings.record
    between = 3 * min(record.spectrum_images, len(data)) + min(record.probe_images, len(data)) / record.probe_every
    return len(data) // size * cost.seconds(size) + between * cost.image_seconds / 4 + SECONDS_TO_SAVE


def batch_size(settings: Settings, data: ImageData, most: int = 512) -> int:
    """The batch size of a training on these images, all of them or as many as the settings say."""
    return settings.schedule.batch_size_for(len(data), settings.engine.processes, most)


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gigabytes(count: int) -> str:
    """A number of bytes in words."""
    return f"{count / 1e9:.1f} GB"


def describe(settings: Settings, data: ImageData, cost: Cost, fixed: Settings, about: str) -> list[str]:
    """Two sentences: what was chosen and why; how long it takes, how much memory, and which flags change it."""
    before, after, size = fixed.flat(), settings.flat(), batch_size(settings, data)
    network = ", ".join(f"{name} {after[name]}" for name in ("width", "stem") if name in after)
    words = {
        "encoder": f"{after['encoder']} ({network})",
        "image_size": f"{data.shape[1]} pixels",
        "batch_size": f"batches of {size}",
        "workers": f"{after['workers']} workers",
        "images": f"{after['images']} of the images",
        "epochs": counted(after["epochs"] or 0, "epoch"),
    }
    names = [name for name in words if before[name] in (None, "auto") and after[name] not in (None, "auto")]
    free, lines = available_bytes(cost.device), []
    if names:
        where = "the GPU" if cost.device.type == "cuda" else f"{cores()} cores"
        memory = "" if free is None else f" with {gigabytes(free)} of free memory"
        what = ", ".join(words[name] for name in names)
        lines.append(f"Chosen for {about} on {where}{memory}: {what}.")
    if not cost.is_known:
        return lines
    in_all = used_bytes(cost.device) + cost.bytes(size) + data.cache_bytes
    need = f" and {gigabytes(in_all)} of memory" if cost.image_bytes else ""
    speed = f"{size / cost.seconds(size):,.0f} images/s on {cost.device.type}"
    flags = ", ".join(f"--{name.replace('_', '-')}" for name in names if name != "epochs")
    how = f"; --time 30m or --epochs changes how long, {flags} the rest" if "epochs" in names else ""
    lines.append(f"Training takes about {in_words(run_seconds(settings, data, cost))}{need} ({speed}){how}.")
    return lines


def reading_seconds(settings: Settings, data: ImageData, cost: Cost) -> float:
    """The time to decode all files once, by the workers side by side."""
    return len(data) * cost.read_seconds / max(1, settings.data.workers or 0)


def run_seconds(settings: Settings, data: ImageData, cost: Cost) -> float:
    """The time of a whole training; files are decoded in its first epoch."""
    schedule, per_epoch = settings.schedule, len(data) // batch_size(settings, data)
    batches = min(schedule.total_epochs * per_epoch, (schedule.max_steps or math.inf) * schedule.accumulate)
    return batches * epoch_seconds(settings, data, cost) / per_epoch + reading_seconds(settings, data, cost)
