"""DINO: a student predicts the sharpened, centred assignments of its own slow copy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kvicreg.losses import DINOLoss
from kvicreg.methods.base import Method, StepResult
from kvicreg.methods.prototypes import Prototypes
from kvicreg.methods.target import Target, rising


class DINO(Method):
    """loss(teacher's scores of the first two views, student's scores of all views); the head ends in prototypes.

    The encoder that a run leaves is the student's.

    Args:
        target_momentum: of the teacher at the start of training, 0.996 as published; it rises to 1 along half a cosine.
        frozen_steps: steps before the prototypes begin to learn; published: those of the first epoch.
    """

    Loss = DINOLoss
    many_views = True

    def __init__(
        self,
        encoder: nn.Module,
        projector: nn.Module,
        loss: DINOLoss | None = None,
        *,
        target_momentum: float = 0.99,
        frozen_steps: int = 30,
    ) -> None:
        super().__init__(encoder, projector, loss)
        self.target_momentum, self.frozen_steps = target_momentum, frozen_steps
        self.prototypes = Prototypes(int(projector.output_dim), self.loss.prototypes)  # type: ignore[arg-type]
        self.target = Target(encoder, projector, self.prototypes)

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        z = [self.embed(view) for view in views]
        student = [self.prototypes(each, frozen=step < self.frozen_steps) for each in z]
        teacher = torch.stack([self.target(view) for view in views[:2]])
        return StepResult(self.loss(teacher, *student), {}, z[0].detach())

    def after_step(self, step: int, total_steps: int) -> None:
        momentum = rising(self.target_momentum, step, total_steps)
        self.target.follow(self.encoder, self.projector, self.prototypes, momentum=momentum)
