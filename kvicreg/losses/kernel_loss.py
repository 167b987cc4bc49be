"""What losses in the feature space of a kernel share: the kernel, its approximation, and what follows the steps."""

from __future__ import annotations

from torch import Tensor

from kvicreg import kernels
from kvicreg.kernels.base import Kernel
from kvicreg.losses.terms import TermsLoss, check_views
from kvicreg.operators import Approximation
from kvicreg.operators.bandwidth import advance

__all__ = ["KernelLoss", "check_approximation"]


class KernelLoss(TermsLoss):
    """A loss of views in the feature space of a kernel; a member defines `terms`.

    Args:
        kernel: a name or a `Kernel`.
        approximation: None (exact), `operators.Nystrom(...)` or `operators.RandomFourier(...)`.
        gather: under `torch.distributed`, the loss of the global batch.
    """

    def __init__(self, kernel: str | Kernel, approximation: Approximation | None, gather: bool) -> None:
        super().__init__()
        check_approximation(approximation)
        self.kernel, self.approximation, self.gather = kernels.get(kernel), approximation, gather

    def advance(self, *views: Tensor) -> None:
        """Let smoothed bandwidths follow the views, and an approximation draw anew if it does."""
        advance(self.kernel, self.approximation, lambda: check_views(views), gather=self.gather)


def check_approximation(approximation: object) -> None:
    """Refuse what is neither None nor an approximation."""
    if approximation is not None and not isinstance(approximation, Approximation):
        raise TypeError(
            "approximation must be None, operators.Nystrom(...) or operators.RandomFourier(...), "
            f"got {type(approximation).__name__}"
        )
