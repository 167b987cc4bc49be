"""How much two sets of features of the same images agree."""

from __future__ import annotations

from torch import Tensor

__all__ = ["centred_alignment"]


def centred_alignment(one: Tensor, two: Tensor) -> float:
    """``|X^T Y|_F^2 / (|X^T X|_F |Y^T Y|_F)`` of the centred features (n, q): 1 when they agree up to rotation.

    Linear centred kernel alignment (CKA). 0 when all features of one of them are the same.

    Example:
        >>> centred_alignment(torch.eye(4), 3 * torch.eye(4).flip(1))
        1.0
    """
    x, y = (v.double() - v.double().mean(0) for v in (one, two))
    scale = (x.T @ x).norm() * (y.T @ y).norm()
    return float((x.T @ y).square().sum() / scale) if scale > 0 else 0.0
