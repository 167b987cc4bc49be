"""Numbers: finite terms and gradients for whatever a network may put out.

A case is a batch of embeddings of a nasty shape (constant, duplicated, one-hot, rank one, with outliers, ...) at a
scale from 1e-6 to 1e6, in a precision, under a kernel, an approximation and a form of the loss. Cases with the same
settings are computed side by side by `torch.vmap`; the first of each block also goes through the loss as training
calls it, with the embeddings in their own type under autocast, and through its own eigensolver with its fallbacks.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from typing import Any

import torch
from torch import Tensor

from kvicreg import KernelVICRegLoss, operators
from kvicreg.operators.eigenvalues import count_repeated

BLOCK = 64
KERNELS = ("linear", "polynomial", "rbf", "laplacian", "rational_quadratic")
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
LARGEST = {"polynomial": 1e4}  # its square is compared with squares of its square: beyond, float32 ends
PATTERNS = (
    "normal", "constant", "zero", "duplicated", "two points", "one-hot", "rank one", "outlier", "one column",
    "far from the origin", "geometric", "equal views", "opposite views",
)  # fmt: skip


def draw_settings(chance: random.Random) -> dict[str, Any]:
    """The settings of a block of cases."""
    kernel = chance.choice(KERNELS)
    spectral = kernel in ("rbf", "laplacian", "rational_quadratic")
    return {
        "kernel": kernel,
        "parametrization": chance.choice(("scaled", "paper")),
        "approximation": chance.choice((None, None, "nystrom", "random-fourier" if spectral else "nystrom")),
        "covariance": chance.choice(("norm", "norm", "squared")),
        "include_diagonal": chance.random() < 0.5,
        "type": chance.choice(list(TYPES)),
        "b": chance.choice((2, 2, 3, 4, 8, 12)),
        "p": chance.choice((1, 2, 5, 16)),
        "seed": chance.randrange(2**31),
    }


def draw_views(settings: dict[str, Any], count: int) -> tuple[Tensor, list[str]]:
    """Pairs of views (count, 2, b, p), each finite in the settings' type, and the pattern of each."""
    generator = torch.Generator().manual_seed(settings["seed"])
    chance = random.Random(settings["seed"])
    b, p = settings["b"], settings["p"]
    z = torch.randn(count, 2, b, p, generator=generator, dtype=torch.float64)
    patterns = [chance.choice(PATTERNS) for _ in range(count)]
    for case, pattern in zip(z, patterns, strict=True):
        if pattern == "constant":
            case[:] = case[:, :1]
        elif pattern == "zero":
            case.zero_()
        elif pattern == "duplicated":
            case[:] = case[:, torch.arange(b) // 2]
        elif pattern == "two points":
            case[:] = case[:, torch.arange(b) % 2]
        elif pattern == "one-hot":
            case[:] = torch.eye(max(b, p), dtype=case.dtype)[:b, :p]
        elif pattern == "rank one":
            case[:] = case[:, :, :1] * case[:1, :1]
        elif pattern == "outlier":
            case[0, 0] *= 1e4
        elif pattern == "one column":
            case[:, :, 1:] = 0
        elif pattern == "far from the origin":
            case += 1e3
        elif pattern == "geometric":
            case *= torch.logspace(0, -12, b, dtype=case.dtype)[:, None]
        elif pattern == "equal views":
            case[1] = case[0]
        elif pattern == "opposite views":
            case[1] = -case[0]
    scales = 10.0 ** (12 * torch.rand(count, 1, 1, 1, generator=generator, dtype=torch.float64) - 6)
    kind = TYPES[settings["type"]]
    largest = min(torch.finfo(kind).max, LARGEST.get(settings["kernel"], 1e6))
    return (z * scales).clamp(-largest, largest).to(kind).float(), patterns


def build(settings: dict[str, Any]) -> KernelVICRegLoss:
    approximation = {
        None: lambda: None,
        "nystrom": lambda: operators.Nystrom(landmarks=3, seed=settings["seed"]),
        "random-fourier": lambda: operators.RandomFourier(features=6, seed=settings["seed"]),
    }[settings["approximation"]]()
    names = ("kernel", "parametrization", "covariance", "include_diagonal")
    return KernelVICRegLoss(**{name: settings[name] for name in names}, approximation=approximation)


def side_by_side(loss: KernelVICRegLoss, views: Tensor) -> Tensor:
    """Whether terms and gradients are finite, for each case (n,)."""

    def one(pair: Tensor) -> tuple[Tensor, Tensor]:
        terms = loss.terms(pair[0], pair[1])
        return terms.total, torch.stack(list(terms))

    gradients, terms = torch.vmap(torch.func.grad(one, has_aux=True), randomness="same")(views)
    return gradients.isfinite().flatten(1).all(1) & terms.isfinite().all(1)


def as_training_does(loss: KernelVICRegLoss, pair: Tensor, kind: torch.dtype) -> str | None:
    """What is wrong with one case, computed on its own under autocast; None when nothing is."""
    precise = pair.clone().requires_grad_()
    converted = pair.to(kind).requires_grad_()
    with torch.autocast("cpu", kind if kind != torch.float32 else torch.bfloat16):
        terms = loss.terms(precise[0], precise[1])
        value = loss(converted[0], converted[1])
    terms.total.backward()
    value.backward()
    assert precise.grad is not None
    assert converted.grad is not None
    if not torch.stack(list(terms)).isfinite().all():
        return f"terms {[float(term) for term in terms]}"
    if not precise.grad.isfinite().all():
        return "gradient"
    # a gradient beyond float16's range is infinite there, which is what a GradScaler waits for
    expected = precise.grad.abs() < 0.5 * torch.finfo(kind).max
    return None if converted.grad[expected].isfinite().all() else f"gradient in {kind}"


def is_beyond_float32(loss: KernelVICRegLoss, pair: Tensor) -> bool:
    """Whether float64 finds a term or a gradient that is finite, but more than float32 can hold."""
    exact = pair.double().requires_grad_()
    terms = loss.terms(exact[0], exact[1])
    (gradient,) = torch.autograd.grad(terms.total, exact)
    values = torch.cat([torch.stack(list(terms)).detach(), gradient.flatten()])
    return bool(values.isfinite().all()) and float(values.abs().max()) > torch.finfo(torch.float32).max / 16


def run(count: int, seed: int) -> dict[str, Any]:
    """`count` batches; the result file's content."""
    chance = random.Random(seed)
    tried: Counter[str] = Counter()
    bad: list[dict[str, Any]] = []
    stopped = 0
    with warnings.catch_warnings(), count_repeated() as eigensolves:
        warnings.simplefilter("ignore")
        while tried["batches"] < count:
            settings = draw_settings(chance)
            size = min(BLOCK, count - tried["batches"])
            views, patterns = draw_views(settings, size)
            loss = build(settings)
            kind = TYPES[settings["type"]]
            try:
                finite = side_by_side(loss, views)
            except torch.linalg.LinAlgError:  # under vmap there is no fallback: one by one, as training does
                finite = torch.zeros(size, dtype=torch.bool)
            for k in {0, *(~finite).nonzero().flatten().tolist()}:
                try:
                    wrong = as_training_does(loss, views[k], kind)
                except torch.linalg.LinAlgError as error:
                    wrong, stopped = f"eigensolver: {error}", stopped + 1
                tried["as training does"] += 1
                if wrong is not None and is_beyond_float32(loss, views[k]):
                    tried["beyond float32"] += 1
                elif wrong is not None:
                    scale = float(views[k].abs().max())
                    bad.append({"what": wrong, "pattern": patterns[k], "scale": scale, "case": k, **settings})
            tried["batches"] += size
            tried[f"kernel {settings['kernel']}"] += size
            tried[f"type {settings['type']}"] += size
            tried[f"approximation {settings['approximation'] or 'exact'}"] += size
    return {
        "batches": tried.pop("batches"),
        "computed_as_training_does": tried.pop("as training does"),
        "beyond_the_range_of_float32": tried.pop("beyond float32", 0),
        "not_finite": len(bad),
        "eigensolves_that_stopped": stopped,
        "eigensolves_repeated": eigensolves.repeated,
        "by": dict(sorted(tried.items())),
        "failures": bad[:50],
    }
