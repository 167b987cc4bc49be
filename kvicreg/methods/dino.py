"""DINO: a student predicts the sharpened, centred assignments of its own slow copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from kvicreg.losses import DINOLoss, DINOOptions
from kvicreg.methods.base import ManyViews, Method, MethodOptions, StepResult
from kvicreg.methods.prototypes import Prototypes
from kvicreg.methods.target import Target, rising
from kvicreg.models.projector import output_dim
from kvicreg.options import option

__all__ = ["DINO"]


class DINO(Method):
    """loss(teacher's scores of the first two views, student's scores of all views); the head ends in prototypes.

    The encoder that a run leaves is the student's.

    Args:
        target_momentum: of the teacher at the start of training; it rises to 1 along half a cosine. The paper, which
            trains for long, starts from 0.996.
        frozen_steps: steps before the prototypes begin to learn; published: those of the first epoch.

    Example:
        >>> method = DINO(SmallCNN(), Projector(512), frozen_steps=0)
        >>> method(torch.randn(2, 8, 1, 28, 28), step=0).embeddings.shape
        torch.Size([8, 1024])
        >>> method.after_step(0, total_steps=100)  # the slow copy follows
    """

    Loss = DINOLoss

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
        self.prototypes = Prototypes(output_dim(projector), self.loss.prototypes)
        self.target = Target(encoder, projector, self.prototypes)

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        z = [self.embed(view) for view in views]
        student = [self.prototypes(each, frozen=step < self.frozen_steps) for each in z]
        teacher = torch.stack([self.target(view) for view in views[:2]])
        return StepResult(self.loss(teacher, *student), {}, z[0].detach())

    def after_step(self, step: int, total_steps: int) -> None:
        momentum = rising(self.target_momentum, step, total_steps)
        self.target.follow(self.encoder, self.projector, self.prototypes, momentum=momentum)


@dataclass(frozen=True, kw_only=True)
class DINOMethodOptions(MethodOptions, name="dino"):
    """Settings of DINO."""

    method = DINO
    loss: DINOOptions = field(default_factory=DINOOptions)
    target_momentum: float = option(0.99, "Momentum of the teacher at the start; it rises to 1.", at_least=0, at_most=1)
    frozen_steps: int = option(30, "Steps before the prototypes begin to learn.", at_least=0)
    many_views: ManyViews = field(default_factory=ManyViews)

    def heads(self, norm: str) -> dict[str, Any]:
        return {"target_momentum": self.target_momentum, "frozen_steps": self.frozen_steps}
