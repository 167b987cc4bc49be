"""What every self-supervised method is to the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn


class StepResult(NamedTuple):
    """One step's outcome. Everything but the loss is detached.

    loss: scalar to descend. terms: scalars to log. embeddings: (b, p) of the first view, for the collapse alarm.
    """

    loss: Tensor
    terms: dict[str, Tensor]
    embeddings: Tensor


class Method(nn.Module):
    """An encoder with its heads and its loss.

    A method with a momentum encoder, a queue or a predictor keeps them as submodules and buffers, so that checkpoints
    hold them, reads views in `step` and moves averages in `after_step`. Arguments of the method and of its loss that
    are called like a setting of `TrainConfig` are filled from it.

    Attributes:
        encoder: images (b, c, h, w) to features (b, q), what pretraining is for.
        projector: features to embeddings (b, p), what the loss sees.
        loss: what it minimises; made by `Loss` with its defaults unless given.
    """

    Loss: ClassVar[type[nn.Module]]
    """The class of its loss."""
    many_views: ClassVar[bool] = False
    """Whether `step` takes smaller crops after the two views (multi-crop)."""

    encoder: nn.Module
    projector: nn.Module
    loss: Any

    def __init__(self, encoder: nn.Module, projector: nn.Module, loss: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder, self.projector = encoder, projector
        self.loss = self.Loss() if loss is None else loss

    def embed(self, view: Tensor) -> Tensor:
        """The embeddings (b, p) of a view (b, c, s, s)."""
        embeddings: Tensor = self.projector(self.encoder(view))
        return embeddings

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        """The loss of a batch's views, each (b, c, s, s), at the given step of training."""
        raise NotImplementedError

    def after_step(self, step: int, total_steps: int) -> None:
        """Called when the optimizer has stepped: the place for moving averages and schedules."""

    def forward(self, views: Sequence[Tensor], step: int, labels: Tensor | None = None) -> StepResult:
        """`step`, under the name that DistributedDataParallel and torch.compile wrap; only a control sees labels."""
        return self.step(views, step)
