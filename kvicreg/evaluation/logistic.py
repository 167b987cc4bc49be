"""Logistic regression with scikit-learn's objective, several times faster where rows are long and alike.

With x_i (q,) the rows, y_i their classes of k, it is the minimum over W (k, q) and b (k,) of

    sum_i -log softmax(W x_i + b)[y_i]  +  |W|^2 / (2 C)

found by L-BFGS. Three things save time and change nothing: with fewer rows than features W lies in the span of the
rows, so that n coordinates replace q features; variables are measured in units of (nearly) the Hessian at the start;
and along a path of C each fit begins where the last one ended.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["LogisticRegression", "Weights", "in_span"]


class Weights(NamedTuple):
    """What a fit gives: W and b side by side (k, q + 1), and whether it has converged."""

    values: Tensor
    converged: bool

    def scores(self, rows: Tensor) -> Tensor:
        """Logits (n, k) of rows (n, q)."""
        return torch.addmm(self.values[:, -1], rows, self.values[:, :-1].T)


def in_span(rows: Tensor) -> tuple[Tensor, Tensor | None]:
    """Rows (n, q) in coordinates of their span, and its basis (q, n), or the rows and None where n is not below q."""
    if len(rows) >= rows.shape[1]:
        return rows, None
    basis, coordinates = torch.linalg.qr(rows.T)
    return coordinates.T.contiguous(), basis


class LogisticRegression:
    """Fits to the same rows (n, q), float32, and classes (n,), of which each of the k numbers occurs.

    Args:
        moments: second moments (q + 1, q + 1) of rows like these and a column of ones, where they have been computed.

    Example:
        >>> rows, classes = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
        >>> LogisticRegression(rows, classes).fit(C=1.0).scores(torch.tensor([[0.5]])).argmax(1)
        tensor([1])
    """

    def __init__(self, rows: Tensor, classes: Tensor, moments: Tensor | None = None) -> None:
        self.rows = torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
        self.classes, self.k = classes, int(classes.max()) + 1
        self.moments = self.rows.T @ self.rows / len(rows) if moments is None else moments
        self.penalized = torch.ones(self.rows.shape[1])
        self.penalized[-1] = 0  # the bias

    @torch.no_grad()
    def fit(self, C: float, start: Tensor | None = None, max_iter: int = 200) -> Weights:
        """The minimum, from `start` or from zero."""
        # for two classes scikit-learn penalizes one row w, where (-w/2, w/2) has half the penalty
        penalty = self.penalized * (2 if self.k == 2 else 1) / (C * len(self.rows))
        weights = self.rows.new_zeros(self.k, self.rows.shape[1]) if start is None else start
        factor = self._unit(weights, penalty)
        z = torch.nn.Parameter((weights @ factor).double())  # W = z factor^-1

        def weights_of_z() -> Tensor:
            return torch.linalg.solve_triangular(factor, z.detach().float(), upper=False, left=False)

        def closure() -> float:
            value, gradient = self._objective(weights_of_z(), penalty)
            unit_gradient = torch.linalg.solve_triangular(factor.T, gradient, upper=True, left=False)
            z.grad = unit_gradient.double().contiguous()
            return value

        optimizer = torch.optim.LBFGS(
            [z],
            max_iter=max_iter,
            history_size=20,
            tolerance_grad=1e-6,
            tolerance_change=1e-10,
            line_search_fn="strong_wolfe",
        )
        optimizer.step(closure)
        return Weights(weights_of_z(), optimizer.state[z]["n_iter"] < max_iter)

    def _unit(self, weights: Tensor, penalty: Tensor) -> Tensor:
        """The Cholesky factor of the Hessian, with the mean of p (1 - p) for that of each row and class.

        What the rounding of the moments could make negative is lifted above zero.
        """
        probabilities = (weights @ self.rows.T).softmax(0)
        hessian = self.moments * (probabilities * (1 - probabilities)).mean()
        rounding = 4 * torch.finfo(hessian.dtype).eps * hessian.diagonal().sum()
        hessian.diagonal().add_(penalty + rounding)
        return torch.linalg.cholesky(hessian)

    def _objective(self, weights: Tensor, penalty: Tensor) -> tuple[float, Tensor]:
        """The objective over n, and its gradient (k, q + 1)."""
        log_probabilities = (weights @ self.rows.T).log_softmax(0)
        loss = -log_probabilities.gather(0, self.classes[None]).double().mean()
        errors = log_probabilities.exp_()
        errors[self.classes, torch.arange(len(self.rows))] -= 1
        value = loss + 0.5 * (penalty * weights.square()).double().sum()
        return value.item(), errors @ self.rows / len(self.rows) + penalty * weights
