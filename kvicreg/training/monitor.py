"""What is measured between epochs, on fixed images, in evaluation mode and without gradients."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from kvicreg import kernels, operators
from kvicreg.data import ArrayData, ImageData, Views, permutation
from kvicreg.measures.alignment import centred_alignment
from kvicreg.measures.features import dtype_of, evaluating, extract
from kvicreg.measures.neighbours import knn_predictions
from kvicreg.methods import Method


class Spectrum(NamedTuple):
    """Health of the embeddings of one batch, as the loss's kernel sees them."""

    eigenvalues: Tensor
    """Of the centred operator K^/b, descending."""
    effective_rank: float
    effective_rank_bound: float
    top_eigenvalue: float
    embedding_scale: float
    """Root mean square deviation of a coordinate from its mean."""
    bandwidth: float
    """The kernel's gamma; nan where it has none."""
    similarity: float
    """Mean kernel value of two different images relative to that of an image with itself."""


def spectrum(embeddings: Tensor, kernel: kernels.Kernel | None = None) -> Spectrum:
    """Spectrum of the centred covariance operator of embeddings (b, p); linear kernel unless one is given."""
    with torch.no_grad():
        z = embeddings.float()
        resolved = (kernels.Linear() if kernel is None else kernel).resolve(z)
        operator = operators.covariance_operator(z, resolved)
        eigenvalues = operator.eigenvalues()
        gram = resolved(z)
        diagonal = gram.diagonal().mean()
        similarity = (gram.sum() - gram.diagonal().sum()) / (len(z) * (len(z) - 1)) / diagonal
        gamma = getattr(resolved, "gamma", None)
        return Spectrum(
            eigenvalues=eigenvalues.cpu(),
            effective_rank=float(operator.effective_rank()),
            effective_rank_bound=float(operator.rank_bound),
            top_eigenvalue=float(eigenvalues[0]),
            embedding_scale=float((z - z.mean(0)).pow(2).mean().sqrt()),
            bandwidth=float("nan") if gamma is None else float(gamma),
            similarity=float(similarity),
        )


def kernel_of(method: Method) -> kernels.Kernel | None:
    """The kernel in a method's loss, if it has one."""
    return getattr(getattr(method, "loss", None), "kernel", None)


def mixture_shares(method: Method) -> dict[str, float]:
    """The shares of a mixture in a method's loss, as columns for metrics.csv; empty without one."""
    kernel = kernel_of(method)
    if not isinstance(kernel, kernels.Mixture):
        return {}
    members = enumerate(kernel.members(), 1)
    return {f"share_{i}_{type(member).__name__}": float(torch.as_tensor(w).detach()) for i, (w, member) in members}


class FixedImages:
    """A few images of the data set, always the same, and what can be measured on them.

    Args:
        data: the training images.
        views: their views.
        count: images for the spectrum.
        probe_count: labelled images for the probe; half of them fit it and half score it.
        seed: which images.
    """

    def __init__(self, data: ImageData, views: Views, *, count: int, probe_count: int, seed: int) -> None:
        order = permutation(len(data), seed=seed, epoch=-1)
        self.samples = order[:count]
        self.images = data.for_views().fetch(self.samples)
        self.views, self.seed = views, seed
        self.probe: ImageData | None = None
        if data.labels is not None and not data.is_of_one_class and probe_count >= 4:
            chosen = order[:probe_count]
            self.probe = ArrayData(data.fetch(chosen), data.labels[chosen], intensity="0:255")

    def spectrum(self, method: Method, device: torch.device) -> Spectrum:
        """Of one random view of each image, the same view every time."""
        with evaluating(method):
            images = self.images.to(device)
            view = self.views(images, self.samples.to(device), seed=self.seed, epoch=0, view=0)
            return spectrum(method.projector(method.encoder(view.to(dtype_of(method)))), kernel_of(method))

    def agreement(self, method: Method, device: torch.device) -> float:
        """How much the features of two views of each image agree (CKA), the same views every time.

        Of the criteria without labels, the one that has predicted probes best: see docs/selection.md.
        """
        with evaluating(method):
            return centred_alignment(*self._features_of_two_views(method, device))

    def _features_of_two_views(self, method: Method, device: torch.device) -> list[Tensor]:
        images, samples = self.images.to(device), self.samples.to(device)
        views = [self.views(images, samples, seed=self.seed, epoch=0, view=view) for view in (0, 1)]
        return [method.encoder(view.to(dtype_of(method))).flatten(1) for view in views]

    def approximation_error(self, method: Method, device: torch.device) -> dict[str, float]:
        """How far an approximated loss is from the exact one, relative to it; empty without an approximation."""
        loss = method.loss
        usual = {name: getattr(loss, name, None) for name in ("approximation", "gather")}
        if usual["approximation"] is None:
            return {}
        with evaluating(method):
            z = [method.projector(features) for features in self._features_of_two_views(method, device)]
            try:
                loss.gather = False  # all processes have these images
                value = float(loss.terms(*z).total)
                loss.approximation = None
                exact = float(loss.terms(*z).total)
            finally:
                for name, setting in usual.items():
                    setattr(loss, name, setting)
        return {"approximation_error": abs(value - exact) / abs(exact)}

    def accuracies(self, method: Method) -> tuple[float, float] | None:
        """Accuracy of a linear probe and of 5-NN on frozen features; labels never reach the encoder."""
        if self.probe is None or self.probe.labels is None:
            return None
        dtype = dtype_of(method)
        features = extract(method.encoder, self.probe, preprocess=lambda images: self.views.plain(images).to(dtype))
        labels, half = self.probe.labels, len(features) // 2
        train_x, train_y, test_x, test_y = features[:half], labels[:half], features[half:], labels[half:]
        neighbours = knn_predictions(train_x, train_y, test_x, k=5)
        return ridge_accuracy(train_x, train_y, test_x, test_y), float((neighbours == test_y).float().mean())


def ridge_accuracy(train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor) -> float:
    """Linear probe in closed form: least squares to one-hot labels on standardised features, ridge n / 10."""
    mean, std = train_x.mean(0), train_x.std(0) + 1e-6
    x, t = (train_x - mean) / std, (test_x - mean) / std
    y = F.one_hot(train_y, int(train_y.max()) + 1).float()
    gram = x @ x.T + 0.1 * len(x) * torch.eye(len(x), device=x.device)
    scores = t @ x.T @ torch.linalg.solve(gram, y - y.mean(0)) + y.mean(0)
    return float((scores.argmax(1) == test_y).float().mean())
