"""MoCo v2: the key of a query, from a momentum encoder, is told among the keys of former batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from kvicreg.losses import InfoNCELoss, InfoNCEOptions
from kvicreg.methods.base import Method, MethodOptions, StepResult
from kvicreg.methods.queue import Queue
from kvicreg.methods.target import Target
from kvicreg.models.projector import output_dim
from kvicreg.options import option

__all__ = ["MoCo"]


class MoCo(Method):
    """InfoNCE of view 1 (query) and view 2 (key), against a queue.

    The published shuffling of samples between GPUs hides batch statistics; training on several GPUs here synchronises
    them over the global batch, where there is nothing to hide.

    Args:
        queue: keys kept.
        target_momentum: of the key encoder: 0.999 as published, less for short training.

    Example:
        >>> method = MoCo(SmallCNN(), Projector(512), queue=1024)
        >>> method(torch.randn(2, 8, 1, 28, 28), step=0).embeddings.shape
        torch.Size([8, 1024])
        >>> method.after_step(0, total_steps=100)  # the slow copy follows
    """

    Loss = InfoNCELoss

    def __init__(
        self,
        encoder: nn.Module,
        projector: nn.Module,
        loss: InfoNCELoss | None = None,
        *,
        queue: int = 4096,
        target_momentum: float = 0.99,
    ) -> None:
        super().__init__(encoder, projector, loss)
        self.target_momentum = target_momentum
        self.target = Target(encoder, projector)
        self.queue = Queue(queue, output_dim(projector))

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        queries, keys = self.embed(views[0]), self.target(views[1])
        loss = self.loss(queries, keys, self.queue.entries.clone())  # the queue moves before the backward pass
        self.queue.push(nn.functional.normalize(keys))
        return StepResult(loss, {}, queries.detach())

    def after_step(self, step: int, total_steps: int) -> None:
        self.target.follow(self.encoder, self.projector, momentum=self.target_momentum)


@dataclass(frozen=True, kw_only=True)
class MoCoOptions(MethodOptions, name="moco"):
    """Settings of MoCo."""

    method = MoCo
    loss: InfoNCEOptions = field(default_factory=InfoNCEOptions)
    queue: int = option(4096, "Embeddings of former batches to tell a key from.", above=0)
    target_momentum: float = option(0.99, "Momentum of the slow copy.", at_least=0, at_most=1)

    def heads(self, norm: str) -> dict[str, Any]:
        return {"queue": self.queue, "target_momentum": self.target_momentum}
