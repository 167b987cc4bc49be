"""BYOL: a predictor on top of the online network predicts a slow copy's embedding of the other view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn

from kvicreg.losses import BYOLLoss
from kvicreg.methods.base import Method, MethodOptions, StepResult
from kvicreg.methods.target import Target, rising
from kvicreg.models.projector import Projector, output_dim
from kvicreg.options import Options, option

__all__ = ["BYOL", "PredictorOptions"]


class BYOL(Method):
    """loss(q1, q2, t1, t2) of the online network's predictions q and the target's embeddings t of both views.

    Args:
        target_momentum: at the start of training; it rises to 1 along half a cosine. The paper, which trains for
            long, starts from 0.996.
        predictor_hidden: width of the predictor's hidden layer.
        norm: the predictor's normalisation.

    Example:
        >>> method = BYOL(SmallCNN(), Projector(512), target_momentum=0.996)
        >>> method(torch.randn(2, 8, 1, 28, 28), step=0).embeddings.shape
        torch.Size([8, 1024])
        >>> method.after_step(0, total_steps=100)  # the slow copy follows
    """

    Loss: ClassVar[type[nn.Module]] = BYOLLoss

    def __init__(
        self,
        encoder: nn.Module,
        projector: nn.Module,
        loss: nn.Module | None = None,
        *,
        target_momentum: float = 0.99,
        predictor_hidden: int = 1024,
        norm: str = "batch",
    ) -> None:
        super().__init__(encoder, projector, loss)
        self.target_momentum = target_momentum
        self.target = Target(encoder, projector)
        width = output_dim(projector)
        self.predictor = Projector(width, predictor_hidden, width, 2, norm)

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        z = [self.embed(view) for view in views]
        loss = self.loss(*(self.predictor(each) for each in z), *(self.target(view) for view in views))
        return StepResult(loss, {}, z[0].detach())

    def after_step(self, step: int, total_steps: int) -> None:
        momentum = rising(self.target_momentum, step, total_steps)
        self.target.follow(self.encoder, self.projector, momentum=momentum)


@dataclass(frozen=True, kw_only=True)
class PredictorOptions(Options):
    """Settings of the predictor and the slow copy that it predicts."""

    target_momentum: float = option(
        0.99, "Momentum of the slow copy at the start; it rises to 1.", at_least=0, at_most=1
    )
    predictor_hidden: int = option(1024, "Hidden width of the predictor.", above=0)


@dataclass(frozen=True, kw_only=True)
class BYOLOptions(MethodOptions, name="byol"):
    """Settings of BYOL."""

    method = BYOL
    predictor: PredictorOptions = field(default_factory=PredictorOptions)

    def heads(self, norm: str) -> dict[str, Any]:
        return {"norm": norm, **self.predictor.flat()}
