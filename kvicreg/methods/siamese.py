"""Methods that are no more than a loss of the views' embeddings."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kvicreg.losses.terms import TermsLoss
from kvicreg.methods.base import Method, StepResult

__all__ = ["Siamese"]


class Siamese(Method):
    """loss(embeddings of view 1, of view 2, ...), by one encoder and projector; logs the loss's terms."""

    def step(self, views: Sequence[Tensor], step: int, **more: Tensor) -> StepResult:
        """The loss of as many views as it takes; `more` is what the loss takes beside the embeddings."""
        z = [self.embed(view) for view in views]
        if not hasattr(self.loss, "terms"):
            return StepResult(self.loss(*z), {}, z[0].detach())
        terms = (self.loss.step if isinstance(self.loss, TermsLoss) else self.loss.terms)(*z, **more)
        logged = {name: value.detach() for name, value in terms._asdict().items() if name != "total"}
        return StepResult(terms.total, logged, z[0].detach())
