"""SwAV: the code of one view, its balanced assignment to prototypes, is predicted from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from kvicreg.losses import SwAVLoss, SwAVOptions
from kvicreg.methods.base import ManyViews, Method, MethodOptions, StepResult
from kvicreg.methods.prototypes import Prototypes
from kvicreg.methods.queue import Queue
from kvicreg.models.projector import output_dim
from kvicreg.options import option

__all__ = ["SwAV"]


class SwAV(Method):
    """loss(scores of every view against the prototypes); codes are made of the first two.

    Args:
        prototypes: how many; 3000 as published for ImageNet.
        queue: embeddings of former batches that help to make the codes, from when so many have been seen; None for
            none, which is best when the batch is larger than the number of prototypes.
        frozen_steps: steps before the prototypes begin to learn.

    Example:
        >>> method = SwAV(SmallCNN(), Projector(512), prototypes=32)
        >>> method(torch.randn(2, 8, 1, 28, 28), step=0).embeddings.shape
        torch.Size([8, 1024])
    """

    Loss = SwAVLoss

    def __init__(
        self,
        encoder: nn.Module,
        projector: nn.Module,
        loss: SwAVLoss | None = None,
        *,
        prototypes: int = 128,
        queue: int | None = None,
        frozen_steps: int = 30,
    ) -> None:
        super().__init__(encoder, projector, loss)
        width = output_dim(projector)
        self.frozen_steps = frozen_steps
        self.prototypes = Prototypes(width, prototypes)
        self.queues = nn.ModuleList([] if queue is None else [Queue(queue, width), Queue(queue, width)])

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        z = [self.embed(view) for view in views]
        scores = [self.prototypes(each, frozen=step < self.frozen_steps) for each in z]
        loss = self.loss(*scores, former=self._former(z))
        return StepResult(loss, {}, z[0].detach())

    @torch.no_grad()
    def _former(self, z: Sequence[Tensor]) -> Tensor | None:
        """Scores of the queued embeddings, once the queues are full; then this batch joins them."""
        queues = [queue for queue in self.queues if isinstance(queue, Queue)]
        full = bool(queues) and queues[0].full
        former = torch.stack([self.prototypes(queue.entries) for queue in queues]) if full else None
        for queue, each in zip(queues, z, strict=False):
            queue.push(each)
        return former


@dataclass(frozen=True, kw_only=True)
class SwAVViews(ManyViews):
    """Views and smaller crops, of the published area."""

    local_crop_area: float = option(
        0.14, "Largest part of the area that a smaller crop keeps.", above=0, at_most=1, needs="local_crops"
    )


@dataclass(frozen=True, kw_only=True)
class SwAVMethodOptions(MethodOptions, name="swav"):
    """Settings of SwAV."""

    method = SwAV
    loss: SwAVOptions = field(default_factory=SwAVOptions)
    prototypes: int = option(128, "Prototypes; 3000 as published for ImageNet.", above=0)
    queue: int | None = option(None, "Embeddings of former batches that help to make the codes.", above=0)
    frozen_steps: int = option(30, "Steps before the prototypes begin to learn.", at_least=0)
    many_views: SwAVViews = field(default_factory=SwAVViews)

    def heads(self, norm: str) -> dict[str, Any]:
        return {"prototypes": self.prototypes, "queue": self.queue, "frozen_steps": self.frozen_steps}
