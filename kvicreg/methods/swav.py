"""SwAV: the code of one view, its balanced assignment to prototypes, is predicted from the others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kvicreg.losses import SwAVLoss
from kvicreg.methods.base import Method, StepResult
from kvicreg.methods.prototypes import Prototypes
from kvicreg.methods.queue import Queue


class SwAV(Method):
    """loss(scores of every view against the prototypes); codes are made of the first two.

    Args:
        prototypes: how many; 3000 as published for ImageNet.
        queue: embeddings of former batches that help to make the codes, from when so many have been seen; None for
            none, which is best when the batch is larger than the number of prototypes.
        frozen_steps: steps before the prototypes begin to learn.
    """

    Loss = SwAVLoss
    many_views = True

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
        width = int(projector.output_dim)  # type: ignore[arg-type]
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
