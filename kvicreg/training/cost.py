"""What a training step costs in memory and time, from small steps: measured on few images, and scaled up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from kvicreg.data import ImageData, Views, permutation
from kvicreg.methods.siamese import Siamese
from kvicreg.models.projector import output_dim
from kvicreg.runs import Settings
from kvicreg.training.build import build_method
from kvicreg.training.memory import PeakMemory
from kvicreg.training.module import SelfSupervised

__all__ = ["Cost", "device_of", "loss_cost", "measure", "unknown_cost"]

PAIR_BYTES = 128
"""Of a loss for each pair of images in a batch: about 32 numbers, the most of any kernel's."""
MARGIN = 1.2
"""On predicted memory: workers, the measurements between epochs, and what the allocator can't use again."""
LOSS_BATCH = 256
_AUTOCAST = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
Clock = Callable[[], float]


class Cost(NamedTuple):
    """What training costs as a function of the batch size, on one device.

    Attributes:
        fixed_bytes: weights' gradients, the optimizer's state, and what else does not depend on the batch.
        image_bytes: for each image of a batch. Both are None where the system does not tell.
        image_seconds: of the network, for each image.
        read_seconds: to read and decode an image.
        loss_seconds: of the loss, for a batch of `LOSS_BATCH` images.
    """

    device: torch.device
    fixed_bytes: int | None
    image_bytes: int | None
    image_seconds: float
    read_seconds: float
    loss_seconds: float

    @property
    def is_known(self) -> bool:
        """Whether steps have been measured."""
        return math.isfinite(self.image_seconds)

    def bytes(self, batch_size: int) -> int:
        """The memory that steps of this batch size take, with a margin; 0 where the system does not tell."""
        if self.fixed_bytes is None or self.image_bytes is None:
            return 0
        step = self.fixed_bytes + self.image_bytes * batch_size + PAIR_BYTES * batch_size**2
        return int(MARGIN * step)

    def largest_batch(self, available: int) -> int:
        """The largest batch size whose steps fit into so many bytes; 0 if none does."""
        assert self.fixed_bytes is not None
        assert self.image_bytes is not None
        left = available / MARGIN - self.fixed_bytes
        if left <= 0:
            return 0
        return int((math.sqrt(self.image_bytes**2 + 4 * PAIR_BYTES * left) - self.image_bytes) / (2 * PAIR_BYTES))

    def seconds(self, batch_size: int) -> float:
        """The time of a step of this batch size, without the reading of its images."""
        return self.image_seconds * batch_size + self.loss_seconds * (batch_size / LOSS_BATCH) ** 2


def unknown_cost(settings: Settings) -> Cost:
    """What is known of steps that nobody has taken."""
    return Cost(device_of(settings), None, None, math.nan, 0.0, 0.0)


def device_of(settings: Settings) -> torch.device:
    """Where a training of these settings runs."""
    on_gpu = torch.cuda.is_available() and settings.engine.accelerator in ("auto", "gpu", "cuda")
    return torch.device("cuda" if on_gpu else "cpu")


def measure(
    settings: Settings, data: ImageData, views: Views, clock: Clock | None = None, *, timed: bool = True
) -> Cost:
    """Take a few steps of few images, forget the weights, and keep the time and the memory.

    Args:
        settings: those of the training, resolved.
        clock: seconds, such as `time.process_time`; by default those that pass.
        timed: False leaves the time unknown, and takes a third of the steps.
    """
    clock, device = clock or time.perf_counter, device_of(settings)
    plain = settings.replace(compile=False)
    module = SelfSupervised(build_method(plain, start=False), plain, data=data, views=views).to(device)
    module.to(torch.float64 if settings.engine.precision == "64-true" else torch.float32)
    optimizer = module.configure_optimizers()
    for group in optimizer.param_groups:
        group["lr"] = 0.0  # whether training diverges is seen when it trains
    few = max(module.method.least_batch, min(64, max(16, 2**16 // data.shape[1] ** 2), 2**20 // data.shape[1] ** 2))
    samples = permutation(len(data), seed=settings.engine.seed, epoch=0)[: 2 * few]
    started = clock()
    images = data.for_views().fetch(samples)
    read_seconds = (clock() - started) / len(samples)
    rows = torch.arange(2 * few) % len(samples)  # there may be fewer images

    def step(count: int) -> None:
        _step(module, optimizer, images[rows[:count]], samples[rows[:count]], device)

    with PeakMemory(device) as memory:
        step(few)  # the first one makes the optimizer's state, and chooses algorithms
        smaller, larger = memory.of(lambda: step(few)), memory.of(lambda: step(2 * few))
    image_bytes = None if smaller is None or larger is None else max(0, larger - smaller) // few
    fixed_bytes = None if smaller is None or image_bytes is None else max(0, smaller - image_bytes * few)
    if not timed:
        return unknown_cost(settings)._replace(fixed_bytes=fixed_bytes, image_bytes=image_bytes)
    image_seconds = fewest_seconds(lambda: step(2 * few), clock) / (2 * few)
    return Cost(
        device, fixed_bytes, image_bytes, image_seconds, read_seconds, _loss_seconds(module.method, device, clock)
    )


def _step(
    module: SelfSupervised, optimizer: torch.optim.Optimizer, images: Tensor, samples: Tensor, device: torch.device
) -> None:
    """One step of training."""
    data, precision = module.data, module.settings.engine.precision
    assert data is not None
    dtype = _AUTOCAST.get(str(precision))
    labels = data.labels_of(samples)
    images, samples = images.to(device), samples.to(device)
    views: Sequence[Tensor] = module.views_of(images, samples)
    views = [view.to(module.dtype, memory_format=module.form) for view in views]
    with torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None):
        loss = module.method(views, 0, None if labels is None else labels.to(device)).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    synchronize(device)


def synchronize(device: torch.device) -> None:
    """Wait until a device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _loss_seconds(method: nn.Module, device: torch.device, clock: Clock) -> float:
    """The time of the loss alone; 0 for methods whose loss is more than one of two views."""
    if not isinstance(method, Siamese):
        return 0.0
    width = output_dim(method.projector)
    views = [torch.randn(LOSS_BATCH, width, device=device, requires_grad=True) for _ in range(2)]
    return loss_cost(method.loss, views, clock)[0]


def loss_cost(loss: Callable[..., Tensor], views: Sequence[Tensor], clock: Clock) -> tuple[float, float]:
    """The seconds of a loss of these views with its gradient, after one to warm up, and its value."""

    def step() -> float:
        total = loss(*views)
        total.backward()
        synchronize(views[0].device)
        return float(total.detach())

    value = step()
    return fewest_seconds(step, clock), value


def fewest_seconds(work: Callable[[], object], clock: Clock) -> float:
    """The time that work takes when nothing disturbs it: the least of six, or of two where they take a second."""
    times: list[float] = []
    while len(times) < 2 or (len(times) < 6 and sum(times) < 1):
        started = clock()
        work()
        times.append(clock() - started)
    return min(times)
