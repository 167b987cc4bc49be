"""Probes of frozen features: logistic regression, a linear layer by SGD, nearest neighbours, few labels.

All take train features (n, q), labels (n,), test features (m, q), labels (m,) and return a `ProbeResult`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kvicreg.evaluation.logistic import LogisticRegression, in_span
from kvicreg.measures.neighbours import knn_predictions

C_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
SEARCH_IMAGES = 10_000  # the regularisation is chosen on at most this many train images


@dataclass(frozen=True)
class ProbeResult:
    """Test accuracy (a fraction), the predicted label of each test image (m,), and how the probe was set.

    Example:
        >>> ProbeResult.of(torch.tensor([1, 2]), labels=torch.tensor([1, 3]), C=0.1)
        ProbeResult(accuracy=0.5, predictions=tensor([1, 2]), correct=tensor([1., 0.]), settings={'C': 0.1})
    """

    accuracy: float
    predictions: Tensor
    correct: Tensor  # (m,) float: 1 where the prediction is right
    settings: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(predictions: Tensor, labels: Tensor, **settings: Any) -> ProbeResult:
        correct = (predictions.cpu() == labels.cpu()).float()
        return ProbeResult(correct.double().mean().item(), predictions.cpu(), correct, settings)


@dataclass(frozen=True)
class LinearProbe:
    """A fitted logistic regression on standardised features: argmax of W (x - mean) / scale + bias.

    Example:
        >>> x, y = torch.tensor([[0.0, 1.0], [0.1, 0.9], [5.0, 0.8], [5.1, 1.1]]), torch.tensor([3, 3, 7, 7])
        >>> fit_linear_probe(x, y, C=1.0).predict(torch.tensor([[4.8, 1.0]]))
        tensor([7])
    """

    mean: Tensor  # (q,)
    scale: Tensor  # (q,)
    weight: Tensor  # (classes, q)
    bias: Tensor  # (classes,)
    classes: Tensor  # (classes,) the labels that were seen
    settings: dict[str, Any]

    def scores(self, x: Tensor) -> Tensor:
        """Logits (m, classes)."""
        return ((x.float().cpu() - self.mean) / self.scale) @ self.weight.T + self.bias

    def predict(self, x: Tensor) -> Tensor:
        return self.classes[self.scores(x).argmax(1)]


def linear_probe(
    train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor, *, seed: int = 0, C: float | None = None
) -> ProbeResult:
    """Logistic regression on standardised features; `C=None` chooses C on a split of train.

    Example:
        >>> x, y = torch.eye(4).repeat(10, 1), torch.arange(40) % 4
        >>> linear_probe(x, y, x, y).accuracy
        1.0
    """
    _check(train_x, train_y, test_x, test_y)
    probe = fit_linear_probe(train_x, train_y, seed=seed, C=C)
    return ProbeResult.of(probe.predict(test_x), test_y, **probe.settings)


def fit_linear_probe(
    x: Tensor, y: Tensor, *, seed: int = 0, C: float | None = None, max_iter: int = 200
) -> LinearProbe:
    """Fit the probe on features (n, q) and labels (n,), to be used on any number of test sets.

    Its weights are those of scikit-learn's `LogisticRegression` on the same standardised features.

    Example:
        >>> x, y = torch.eye(4).repeat(10, 1), torch.arange(40) % 4
        >>> fit_linear_probe(x, y).predict(x[:4]).tolist()
        [0, 1, 2, 3]
    """
    mean, scale = _standardisation(x)
    rows, basis = in_span((x.float().cpu() - mean) / scale)
    classes, numbers = torch.unique(y.cpu(), return_inverse=True)
    search = Search(C, "given") if C is not None else _choose_C(rows, numbers, seed, max_iter)
    model = LogisticRegression(rows, numbers, search.moments)
    weights, converged = model.fit(search.C, search.start, max_iter)
    weight, bias = weights[:, :-1], weights[:, -1]
    settings = {"C": search.C, "C_chosen_on": search.chosen_on, "max_iter": max_iter, "converged": converged}
    return LinearProbe(mean, scale, weight if basis is None else weight @ basis.T, bias, classes, settings)


def sgd_probe(
    train_x: Tensor,
    train_y: Tensor,
    test_x: Tensor,
    test_y: Tensor,
    *,
    epochs: int = 100,
    batch_size: int = 512,
    learning_rate: float = 1.0,
    seed: int = 0,
) -> ProbeResult:
    """A linear layer trained by SGD (momentum 0.9, cosine schedule) on standardised features.

    Features are divided by sqrt(q) too, which bounds the curvature by 1/2: one learning rate serves all.

    Example:
        >>> x, y = torch.eye(4).repeat(10, 1), torch.arange(40) % 4
        >>> sgd_probe(x, y, x, y, epochs=10).accuracy
        1.0
    """
    _check(train_x, train_y, test_x, test_y)
    mean, scale = _standardisation(train_x)
    scale = scale * train_x.shape[1] ** 0.5
    classes, labels = torch.unique(train_y.cpu(), return_inverse=True)
    head = torch.nn.Linear(train_x.shape[1], len(classes))
    batch_size = min(batch_size, max(16, len(train_x) // 20))  # small data: at least 20 steps per epoch
    settings = _SGD(epochs, batch_size, learning_rate, seed)
    _fit_by_sgd(head, (train_x.float().cpu() - mean) / scale, labels, settings)
    with torch.no_grad():
        predictions = classes[head((test_x.float().cpu() - mean) / scale).argmax(1)]
    return ProbeResult.of(predictions, test_y, **settings._asdict())


class _SGD(NamedTuple):
    epochs: int
    batch_size: int
    learning_rate: float
    seed: int


@torch.enable_grad()
def _fit_by_sgd(head: torch.nn.Linear, rows: Tensor, labels: Tensor, settings: _SGD) -> None:
    """Train a linear layer, from zero, to tell the labels (n,) of rows (n, q)."""
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    optimizer = torch.optim.SGD(head.parameters(), lr=settings.learning_rate, momentum=0.9)
    steps = settings.epochs * -(-len(rows) // settings.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator = torch.Generator().manual_seed(settings.seed)
    for _ in range(settings.epochs):
        for batch in torch.randperm(len(rows), generator=generator).split(settings.batch_size):
            loss = torch.nn.functional.cross_entropy(head(rows[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def knn(
    train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor, k: int = 20, temperature: float = 0.07
) -> ProbeResult:
    """The k train images of highest cosine vote, with weight exp(cosine / temperature).

    Example:
        >>> x, y = torch.eye(4).repeat(10, 1), torch.arange(40) % 4
        >>> knn(x, y, x, y, k=5).accuracy
        1.0
    """
    _check(train_x, train_y, test_x, test_y)
    if not 1 <= k <= len(train_x):
        raise ValueError(f"k must be between 1 and the {len(train_x)} train images, got {k}")
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    predictions = knn_predictions(train_x, train_y, test_x, k=k, temperature=temperature)
    return ProbeResult.of(predictions, test_y, k=k, temperature=temperature)


def few_label_probe(
    train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor, *, fraction: float, seed: int = 0
) -> ProbeResult:
    """The linear probe with a fraction of the labels: of each class the same share, at least one image.

    Example:
        >>> x, y = torch.eye(4).repeat(10, 1), torch.arange(40) % 4
        >>> few_label_probe(x, y, x, y, fraction=0.5).accuracy
        1.0
    """
    _check(train_x, train_y, test_x, test_y)
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, got {fraction}")
    rows = labelled_subset(train_y, fraction, seed)
    result = linear_probe(train_x[rows], train_y[rows], test_x, test_y, seed=seed)
    settings = {**result.settings, "fraction": fraction, "labels": len(rows), "seed": seed}
    return ProbeResult(result.accuracy, result.predictions, result.correct, settings)


def labelled_subset(labels: Tensor, fraction: float, seed: int) -> Tensor:
    """Indices of a random `fraction` of each class, at least one image of each, in ascending order."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    shuffled = labels.cpu()[order]
    chosen = []
    for label in torch.unique(shuffled):
        members = order[shuffled == label]
        chosen.append(members[: max(1, round(fraction * len(members)))])
    return torch.cat(chosen).sort().values


def _standardisation(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and (biased) standard deviation of each feature; a constant feature has scale 1."""
    std, mean = torch.std_mean(x.double().cpu(), dim=0, correction=0)
    tiny = 10 * torch.finfo(torch.float32).eps * mean.abs()
    return mean.float(), torch.where(std > tiny, std, torch.ones_like(std)).float()


class Search(NamedTuple):
    """A choice of C, on what it was made, and what the fit to all rows can begin with."""

    C: float
    chosen_on: str
    start: Tensor | None = None
    moments: Tensor | None = None


def _choose_C(rows: Tensor, numbers: Tensor, seed: int, max_iter: int) -> Search:
    """The C of best accuracy on a fifth of (at most SEARCH_IMAGES of) train; the smallest on a tie.

    Larger ones, whose fits take longest, are not tried after two in a row that were worse than the best.
    """
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:SEARCH_IMAGES]
    cut = len(order) // 5
    score, fit = order[:cut], order[cut:]
    seen, fitted = torch.unique(numbers[fit], return_inverse=True)
    if cut < 10 or len(seen) < 2:
        return Search(0.1, "default, too few labels for a split")
    model, weights = LogisticRegression(rows[fit], fitted), None
    best, accuracy, worse = Search(0.1, ""), -1.0, 0
    for C in C_GRID:
        weights = model.fit(C, None if weights is None else weights.values, max_iter)
        right = (seen[weights.scores(rows[score]).argmax(1)] == numbers[score]).float().mean().item()
        worse = worse + 1 if right < accuracy else 0
        if right > accuracy:
            best, accuracy = Search(C, f"{cut} held-out train images", weights.values, model.moments), right
        if worse == 2:
            break
    return best if len(seen) == len(torch.unique(numbers)) else best._replace(start=None)


def _check(train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor) -> None:
    for name, x, y in (("train", train_x, train_y), ("test", test_x, test_y)):
        if x.ndim != 2:
            raise ValueError(f"{name}_x must have shape (images, features), got {tuple(x.shape)}")
        if y is None or y.shape != (len(x),):
            got = "no labels" if y is None else tuple(y.shape)
            raise ValueError(f"{name}_y must hold one label for each of the {len(x)} rows of {name}_x, got {got}")
        if len(x) == 0:
            raise ValueError(f"{name}_x has no rows")
        if not torch.isfinite(x).all():
            raise ValueError(f"{name}_x has values that are not finite: the encoder's output is broken")
    if train_x.shape[1] != test_x.shape[1]:
        raise ValueError(f"train_x has {train_x.shape[1]} features and test_x {test_x.shape[1]}; both need the same")
    if len(torch.unique(train_y)) < 2:
        raise ValueError("train_y has a single class; a probe needs at least two")
