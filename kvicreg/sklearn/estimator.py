"""Kernel VICReg as a scikit-learn transformer."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from kvicreg.checks import check_limits
from kvicreg.kernels import Kernel
from kvicreg.losses import KernelVICRegLoss
from kvicreg.models import Projector
from kvicreg.sklearn.inputs import ImageInputs, Inputs, TableInputs, ViewsOf

__all__ = ["KernelVICReg"]

ROWS_AT_ONCE = 4096
LIMITS: dict[str, dict[str, float]] = {
    "n_components": {"at_least": 1},
    "strength": {"at_least": 0, "at_most": 1},
    "hidden": {"at_least": 1},
    "epochs": {"at_least": 1},
    "batch_size": {"at_least": 2},
    "learning_rate": {"above": 0},
}


class KernelVICReg(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features learnt without labels: a network that Kernel VICReg trains on two random views of every row.

    The loss makes the views of a row meet in a kernel's feature space while the rows keep their variance there
    (`kvicreg.losses.KernelVICRegLoss`). The arithmetic is that of X: float64, or float32, which is faster.

    Args:
        n_components: width of the features.
        kernel: a name such as "linear", "rbf", "laplacian" or "rq", a mixture "0.3*rbf+0.7*linear", or a `Kernel`.
        views: of rows of a table, some of "mask", "noise" and "swap" joined by "+" (`table_view` says what they do); of
            images a preset, such as "natural" or "digits"; "auto" is "swap", or "natural". Or a function of an array of
            some rows of X and a numpy Generator, which returns as many rows.
        strength: of the views of a table: the chance that a value is changed, the standard deviation of noise.
        hidden: width of the hidden layers.
        epochs: passes over X.
        batch_size: rows a step; the loss sees them together.
        learning_rate: of Adam.
        invariance_weight, variance_weight, covariance_weight: of the loss's terms; None takes its defaults.
        device: "cpu", "cuda", ...
        random_state: seed of the network, the order of the rows and the views; a number makes fits repeatable.
        verbose: print the loss every so many epochs; 0 for never.

    Attributes:
        encoder_: the network.
        loss_curve_: the mean loss of every epoch so far.
        n_features_in_, feature_names_in_: as in all of scikit-learn.

    Shape:
        X is a table ``(n, p)``, or images ``(n, s, s)``, ``(n, s, s, c)`` or ``(n, c, s, s)``; the result is
        ``(n, n_components)``.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from kvicreg.sklearn import KernelVICReg
        >>> X = load_iris().data
        >>> KernelVICReg(n_components=3, epochs=5, random_state=0).fit_transform(X).shape
        (150, 3)
    """

    _shape: tuple[int, ...]  # of a row of X

    def __init__(
        self,
        n_components: int = 16,
        *,
        kernel: str | Kernel = "rbf",
        views: ViewsOf = "auto",
        strength: float = 0.3,
        hidden: int = 128,
        epochs: int = 50,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        invariance_weight: float | None = None,
        variance_weight: float | None = None,
        covariance_weight: float | None = None,
        device: str = "cpu",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.views = views
        self.strength = strength
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.invariance_weight = invariance_weight
        self.variance_weight = variance_weight
        self.covariance_weight = covariance_weight
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on the rows of X, from the start; y is ignored."""
        X = self._checked(X, reset=True)
        self._start(X)
        for _ in range(self.epochs):
            self._train_epoch(X)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Train for one more epoch, on the rows of this X; y is ignored."""
        is_first = not hasattr(self, "encoder_")
        X = self._checked(X, reset=is_first)
        if is_first:
            self._start(X)
        else:
            self._inputs.update(X)
        self._train_epoch(X)
        return self

    @torch.no_grad()
    def transform(self, X: Any) -> np.ndarray:
        """The features of the rows of X."""
        check_is_fitted(self)
        X = self._checked(X, reset=False, rows=1)
        encoder, dtype = self.encoder_.eval(), next(self.encoder_.parameters()).dtype
        parts = (self._inputs.plain(X[start : start + ROWS_AT_ONCE]) for start in range(0, len(X), ROWS_AT_ONCE))
        features = np.concatenate([encoder(part.to(self.device, dtype)).cpu().numpy() for part in parts])
        return features.astype(X.dtype, copy=False) if X.ndim == 2 else features

    def _checked(self, X: Any, *, reset: bool, rows: int = 2) -> np.ndarray:
        """X as an array; the first one fixes the kind and the shape of the rows."""
        is_table = getattr(X, "ndim", 2) <= 2
        dtype = [np.float64, np.float32] if is_table else "numeric"
        X = validate_data(self, X, reset=reset, dtype=dtype, allow_nd=not is_table, ensure_min_samples=rows)
        if not reset and X.shape[1:] != self._shape:
            raise ValueError(f"X must have rows of shape {self._shape}, as in fit, got {X.shape[1:]}")
        self._shape = X.shape[1:] if reset else self._shape
        return X

    def _start(self, X: np.ndarray) -> None:
        """An untrained network for rows like those of X."""
        for name, limits in LIMITS.items():
            check_limits(name, getattr(self, name), limits)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._inputs: Inputs
        if X.ndim == 2:
            self._inputs = TableInputs("swap" if self.views == "auto" else self.views, self.strength)
        else:
            self._inputs = ImageInputs("natural" if self.views == "auto" else self.views, X)
        self._inputs.update(X)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            self.encoder_ = self._inputs.encoder(self.n_components, self.hidden)
            projector = Projector(self.n_components, self.hidden, self.hidden, layers=2)
        weights = {name: getattr(self, name) for name in ("invariance_weight", "variance_weight", "covariance_weight")}
        loss = KernelVICRegLoss(copy.deepcopy(self.kernel), gather=False, **weights)
        self._parts = nn.ModuleList([self.encoder_, projector, loss]).to(self.device, self._inputs.plain(X[:2]).dtype)
        self._optimizer = torch.optim.Adam(self._parts.parameters(), lr=self.learning_rate)
        self.loss_curve_: list[float] = []

    def _train_epoch(self, X: np.ndarray) -> None:
        encoder, projector, loss = self._parts.train()
        dtype = next(encoder.parameters()).dtype
        epoch = len(self.loss_curve_)
        order = np.random.default_rng([self._seed, epoch]).permutation(len(X))
        losses = []
        for batch, rows in enumerate(np.array_split(order, max(1, len(X) // self.batch_size))):
            views = (self._inputs.view(X, rows, (self._seed, epoch, batch, view)) for view in (0, 1))
            z1, z2 = (projector(encoder(view.to(self.device, dtype))) for view in views)
            value = loss(z1, z2)
            self._optimizer.zero_grad()
            value.backward()
            self._optimizer.step()
            losses.append(value.detach())
        self.loss_curve_.append(float(torch.stack(losses).mean()))
        if self.verbose and (epoch + 1) % self.verbose == 0:
            print(f"epoch {epoch + 1}: loss {self.loss_curve_[-1]:.4f}", flush=True)

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
