"""What the spectral family shares: losses of views at unit length in a kernel's feature space.

With the linear kernel, their default, they are their papers'. There the second moment of a view,
``rho = mean_i phi(z_i) phi(z_i)^T`` with ``|phi| = 1``, has trace 1: its eigenvalues are shares of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.kernel_loss import KernelLoss
from kvicreg.losses.terms import check_views
from kvicreg.operators import Approximation, CovarianceOperator
from kvicreg.operators.build import Embedded, unit_operators
from kvicreg.options import Options

__all__ = ["SpectralLoss"]


class SpectralLoss(KernelLoss):
    """A loss of two or more views ``(b, p)``: what views of an image share, and a function of a spectrum.

    A member names its settings as `Options` and defines `of_views`.

    Args:
        kernel: a name or a `Kernel`; linear as published.
        approximation: None (exact), `operators.Nystrom(...)` or `operators.RandomFourier(...)`.
        gather: under `torch.distributed`, the loss of the global batch.
        settings: those of `Options`, by name.
    """

    Options: ClassVar[type[Options]]
    options: Any

    def __init__(
        self,
        kernel: str | Kernel = "linear",
        approximation: Approximation | None = None,
        gather: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(kernel, approximation, gather)
        self.options = self.Options(**settings)

    def terms(self, *views: Tensor) -> Any:
        """The weighted total, and its terms without their weights."""
        checked = check_views(views)
        with full_precision(checked[0]):
            return self.of_views(checked)

    def of_views(self, views: Sequence[Tensor]) -> Any:
        """The terms of views that were checked, a named tuple with `total`."""
        raise NotImplementedError

    def at_unit_length(self, views: Sequence[Tensor], *, centred: bool = False) -> Embedded:
        """The views at unit length: second moments of trace 1, or covariances, and the cosines of pairs."""
        return unit_operators(views, self.kernel, self.approximation, self.gather, centred)

    def directions(self, views: Sequence[Tensor], operator: CovarianceOperator) -> float:
        """The dimension of feature space; of an infinite one, as many as there are samples."""
        rank = self.kernel.rank(views[0].shape[-1])
        return rank if math.isfinite(rank) else operator.samples

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self.options.flat().items())
