"""The spectrum of features: how many directions they use."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["effective_rank", "spectrum"]


def spectrum(features: Tensor) -> Tensor:
    """Eigenvalues of the covariance (1/n) of features (n, q), descending, all min(n, q) of them, in float64."""
    x = features.double()
    centred = x - x.mean(0)
    smaller = centred.T @ centred if len(x) > x.shape[1] else centred @ centred.T
    try:
        eigenvalues: Tensor = torch.linalg.eigvalsh(smaller / len(x))
    except torch.linalg.LinAlgError as error:  # numbers near the end of the range: weights that no training leaves
        raise ValueError(
            f"the features, as large as {float(x.abs().max()):.3g}, have no spectrum: the encoder is damaged"
        ) from error
    return eigenvalues.flip(0).clamp_min(0)


def effective_rank(eigenvalues: Tensor) -> float:
    """exp of the entropy of the eigenvalues' shares; 1 when there is no variance at all."""
    total = eigenvalues.sum()
    if total <= 0:
        return 1.0
    return float(torch.special.entr(eigenvalues / total).sum().exp())
