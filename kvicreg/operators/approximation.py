"""What an approximation is: an explicit feature map shared by all views."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from kvicreg.kernels.base import Kernel
from kvicreg.operators.shard import Shard

__all__ = ["Approximation"]


class Approximation(nn.Module):
    """Explicit features ``Phi`` with ``k(x, y) ~ Phi(x) . Phi(y)``, so that nothing b x b is built."""

    def advance(self) -> None:
        """Called once per training step, before `features`: the place for what changes from step to step."""

    def features(self, views: Sequence[Tensor] | Tensor, kernel: Kernel, shard: Shard) -> Tensor:
        """Features ``(v, b, D)`` of views ``(b, p)``, by one map for all views and processes."""
        raise NotImplementedError
