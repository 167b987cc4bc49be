"""What is measured between epochs, on fixed images, in evaluation mode and without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kvicreg import kernels, operators
from kvicreg.data import ImageData, Views, permutation
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


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; every submodule's own mode is put back afterwards."""
    modes = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for m, training in modes:
            m.training = training


def spectrum(embeddings: Tensor, kernel: kernels.Kernel | None = None) -> Spectrum:
    """Spectrum of the centred covariance operator of embeddings (b, p); linear kernel unless one is given."""
    with torch.no_grad():
        z = embeddings.float()
        resolved = (kernels.Linear() if kernel is None else kernel).resolve(z)
        operator = operators.covariance_operator(z, resolved)
        eigenvalues = operator.eigenvalues()
        gram = resolved(z)
        own = gram.diagonal().mean()
        similarity = (gram.sum() - gram.diagonal().sum()) / (len(z) * (len(z) - 1)) / own
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


def dtype_of(module: nn.Module) -> torch.dtype:
    """The type of a module's weights."""
    return next(module.parameters()).dtype


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
        self.images = data.fetch(self.samples)
        self.views, self.seed = views, seed
        self.probe_images: Tensor | None = None
        if data.labels is not None and probe_count >= 4:
            chosen = order[:probe_count]
            self.probe_images, self.probe_labels = data.fetch(chosen), data.labels[chosen]

    def spectrum(self, method: Method, device: torch.device) -> Spectrum:
        """Of one random view of each image, the same view every time."""
        with evaluating(method):
            images = self.images.to(device)
            view = self.views(images, self.samples.to(device), seed=self.seed, epoch=0, view=0)
            return spectrum(method.projector(method.encoder(view.to(dtype_of(method)))), kernel_of(method))

    def accuracies(self, method: Method, device: torch.device) -> tuple[float, float] | None:
        """Accuracy of a linear probe and of k-NN on frozen features; labels never reach the encoder."""
        if self.probe_images is None:
            return None
        with evaluating(method):
            plain = [self.views.plain(images.to(device)) for images in torch.split(self.probe_images, 256)]
            features = torch.cat([method.encoder(x.to(dtype_of(method))).float() for x in plain])
            labels, half = self.probe_labels.to(device), len(features) // 2
            split = features[:half], labels[:half], features[half:], labels[half:]
            return ridge_accuracy(*split), knn_accuracy(*split)


def ridge_accuracy(train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor) -> float:
    """Linear probe in closed form: least squares to one-hot labels on standardised features, ridge n / 10."""
    mean, std = train_x.mean(0), train_x.std(0) + 1e-6
    x, t = (train_x - mean) / std, (test_x - mean) / std
    y = F.one_hot(train_y, int(train_y.max()) + 1).float()
    gram = x @ x.T + 0.1 * len(x) * torch.eye(len(x), device=x.device)
    scores = t @ x.T @ torch.linalg.solve(gram, y - y.mean(0)) + y.mean(0)
    return float((scores.argmax(1) == test_y).float().mean())


def knn_accuracy(train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor, k: int = 5) -> float:
    """Majority of the k nearest by cosine, nearer ones counting more."""
    similarity = F.normalize(test_x) @ F.normalize(train_x).T
    weights, nearest = similarity.topk(min(k, len(train_x)), dim=1)
    votes = torch.zeros(len(test_x), int(train_y.max()) + 1, device=test_x.device)
    votes.scatter_add_(1, train_y[nearest], (weights / 0.07).exp())
    return float((votes.argmax(1) == test_y).float().mean())
