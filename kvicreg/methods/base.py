"""What every self-supervised method is to the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    hold them, reads views in `step` and moves averages in `after_step`.

    Attributes:
        encoder: images (b, c, h, w) to features (b, q), what pretraining is for.
        projector: features to embeddings (b, p), what the loss sees.
    """

    encoder: nn.Module
    projector: nn.Module

    def __init__(self, encoder: nn.Module, projector: nn.Module) -> None:
        super().__init__()
        self.encoder, self.projector = encoder, projector

    def step(self, views: Sequence[Tensor], step: int) -> StepResult:
        """The loss of a batch's views, each (b, c, s, s), at the given step of training."""
        raise NotImplementedError

    def after_step(self, step: int, total_steps: int) -> None:
        """Called when the optimizer has stepped: the place for moving averages and schedules."""

    def forward(self, views: Sequence[Tensor], step: int) -> StepResult:
        """`step`, under the name that DistributedDataParallel and torch.compile wrap."""
        return self.step(views, step)
