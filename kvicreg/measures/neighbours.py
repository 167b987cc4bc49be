"""Nearest neighbours by cosine: which they are, and what they vote for."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

__all__ = ["knn_predictions", "nearest"]

SIMILARITIES = 2**25
"""At most so many similarities are held at a time: 128 MB."""


def nearest(features: Tensor, k: int) -> Tensor:
    """Indices (n, k) of the k rows of highest cosine with each row of features (n, q), itself left out."""
    k = min(k, len(features) - 1)
    x = normalize(features.to(torch.promote_types(features.dtype, torch.float32)), dim=1)
    neighbours = []
    for rows in torch.arange(len(x)).split(1024):
        similarity = x[rows] @ x.T
        similarity[torch.arange(len(rows)), rows] = -2.0
        neighbours.append(similarity.topk(k, dim=1).indices)
    return torch.cat(neighbours)


def knn_predictions(
    train_x: Tensor, train_y: Tensor, test_x: Tensor, *, k: int = 20, temperature: float = 0.07
) -> Tensor:
    """Labels (m,) of test rows (m, q): the k train rows of highest cosine vote, with weight exp(cosine / temperature).

    Example:
        >>> x, y = torch.eye(3), torch.tensor([4, 5, 6])
        >>> knn_predictions(x, y, x, k=1)
        tensor([4, 5, 6])
    """
    bank, queries = normalize(train_x.float(), dim=1), normalize(test_x.float(), dim=1)
    classes, labels = torch.unique(train_y.to(bank.device), return_inverse=True)
    predictions = []
    for chunk in queries.split(max(1, SIMILARITIES // len(bank))):
        similarity, index = (chunk @ bank.T).topk(min(k, len(bank)), dim=1)
        votes = similarity.new_zeros(len(chunk), len(classes))
        votes.scatter_add_(1, labels[index], ((similarity - 1) / temperature).exp())
        predictions.append(classes[votes.argmax(1)])
    return torch.cat(predictions)
