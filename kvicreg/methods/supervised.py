"""Supervised: cross-entropy with labels, the upper control under the same encoder, views and budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from kvicreg.methods.base import ManyViews, Method, MethodOptions, StepResult
from kvicreg.models.encoder import feature_dim
from kvicreg.options import option

__all__ = ["Supervised"]


class Supervised(Method):
    """Mean cross-entropy of all views by one linear layer on the encoder's features; it has no projector.

    Args:
        classes: how many.

    Example:
        >>> method = Supervised(SmallCNN(), Projector(512), classes=10)
        >>> method(torch.randn(2, 8, 1, 28, 28), step=0, labels=torch.arange(8)).embeddings.shape
        torch.Size([8, 512])
    """

    Loss = nn.CrossEntropyLoss

    def __init__(
        self, encoder: nn.Module, projector: nn.Module, loss: nn.Module | None = None, *, classes: int = 10
    ) -> None:
        super().__init__(encoder, nn.Identity(), loss)
        self.classifier = nn.Linear(feature_dim(encoder), classes)

    def forward(self, views: Sequence[Tensor], step: int, labels: Tensor | None = None) -> StepResult:
        if labels is None:
            raise ValueError("the supervised control needs labels, and these images have none")
        features = [self.encoder(view) for view in views]
        losses = [self.loss(self.classifier(each), labels) for each in features]
        return StepResult(sum(losses[1:], losses[0]) / len(losses), {}, features[0].detach())


@dataclass(frozen=True, kw_only=True)
class SupervisedOptions(MethodOptions, name="supervised"):
    """Settings of the supervised control."""

    method = Supervised
    classes: int | None = option(None, "Classes; by default the data's.", above=0)
    many_views: ManyViews = field(default_factory=ManyViews)

    def heads(self, norm: str) -> dict[str, Any]:
        if self.classes is None:
            raise ValueError("the supervised control needs labels, and these images have none")
        return {"classes": self.classes}

    def resolved(self, classes: int | None = None) -> SupervisedOptions:
        return replace(self, classes=self.classes or classes)
