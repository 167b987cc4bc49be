"""What the kernel family shares: the check of its approximation, and unit vectors in feature space."""

from __future__ import annotations

import torch
from torch import Tensor

from kvicreg.operators import Approximation

__all__ = ["check_approximation", "unit_rows"]


def check_approximation(approximation: object) -> None:
    """Refuse what is neither None nor an approximation."""
    if approximation is not None and not isinstance(approximation, Approximation):
        raise TypeError(
            "approximation must be None, operators.Nystrom(...) or operators.RandomFourier(...), "
            f"got {type(approximation).__name__}"
        )


def unit_rows(z: Tensor) -> Tensor:
    """Rows at unit length; a row of zeros stays zero, with a gradient of zero."""
    lengths = torch.linalg.vecdot(z, z).unsqueeze(-1)
    zero = lengths == 0
    return z * torch.where(zero, 0.0, torch.where(zero, 1.0, lengths).rsqrt())
