"""The paper's theory, measured: what the RKHS sees (Theorem 2), how fast its spectrum settles (Theorem 3), and why
it does not collapse (Proposition 1 and the remark after it). Each function measures one claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import Tensor

from experiments import theory_figures as figures
from experiments.common import Experiment, Job, Result, write
from experiments.common.versions import as_text
from kvicreg import kernels
from kvicreg.losses import KernelVICRegLoss, VICRegLoss
from kvicreg.operators import covariance_operator

CIRCLES, ROLL = 600, 1000
COMPONENTS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
BATCH_SIZES = (16, 32, 64, 128, 256, 512, 1024)
_variance = partial(KernelVICRegLoss, covariance_weight=0.0, spectrum="per-view")
OBJECTIVES: dict[str, Callable[[], Callable[[Tensor, Tensor], Tensor]]] = {
    "VICReg, variance term": partial(VICRegLoss, covariance_weight=0.0),
    "VICReg, all terms": VICRegLoss,
    "kernel variance term, linear": partial(_variance, kernels.Linear()),
    "kernel variance term, RBF": partial(_variance, kernels.RBF("median")),
    "kernel variance term, Laplacian": partial(_variance, kernels.Laplacian("median")),
}
"""What descends from collapse."""
RADIAL: dict[str, Callable[[Any], kernels.Kernel]] = {
    "RBF": kernels.RBF, "Laplacian": kernels.Laplacian, "rational quadratic": kernels.RationalQuadratic,
}  # fmt: skip


@dataclass(frozen=True)
class Theory(Experiment, name="theory"):
    """Measure and draw the paper's theory: nonlinear variance, spectral stability, non-collapse.

    Takes a few minutes and no data. Writes OUT/theory.json and OUT/theory-*.png, .svg.

    Example:
        python -m experiments theory --out docs/results
    """

    few = {"draws": 1, "steps": 50}

    draws: int = 40
    """Batches of each size."""
    steps: int = 300
    """Steps of descent from collapse."""

    def run(self, job: Job) -> Result:
        seed = job.seeds[0] if job.seeds else 0
        job.say("Theorem 2: what linear models read off the components of circles and of a Swiss roll")
        capture = nonlinear_variance(seed)
        job.say(f"Theorem 3: {self.draws} batches of each of {len(BATCH_SIZES)} sizes against the population operator")
        stability = batch_sizes_and_errors(seed, self.draws)
        job.say("Proposition 1: descent from collapse")
        collapse = leaving_collapse(seed, steps=self.steps)
        measured = {"nonlinear_variance": capture, "spectral_stability": stability, "non_collapse": collapse}
        drawn = (figures.draw_nonlinear_variance, figures.draw_stability, figures.draw_collapse)
        for draw, (name, part) in zip(drawn, measured.items(), strict=True):
            draw(part, job.out / f"theory-{name.replace('_', '-')}")
        about = {"seed": seed} | {name: part["numbers"] for name, part in measured.items()}
        about["fingerprint"] = theory_fingerprint()
        write(job.out / "theory.json", about)
        return Result(job, [], [], about)


def circles(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two concentric circles with a little noise ``(n, 2)``, and which of them each point is on."""
    inner = torch.rand(CIRCLES, generator=generator) < 0.5
    angle = 2 * math.pi * torch.rand(CIRCLES, generator=generator)
    points = torch.where(inner, 0.35, 1.0)[:, None] * _on_circle(angle)
    return (points + 0.05 * torch.randn(CIRCLES, 2, generator=generator)).double(), inner.long()


def swiss_roll(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A rolled-up sheet ``(n, 3)``, and how far along the roll each point is."""
    along = 1.5 * math.pi * (1 + 2 * torch.rand(ROLL, generator=generator))
    height = 20 * torch.rand(ROLL, generator=generator)
    return torch.stack([along * along.cos(), height, along * along.sin()], 1).double(), along.double()


def components(z: Tensor, kernel: kernels.Kernel) -> np.ndarray:
    """The batch along its kernel principal components ``(b, k)``, each of unit variance, largest eigenvalue first."""
    gram = kernel(z)
    centred = gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()
    values, vectors = torch.linalg.eigh(centred)
    there = values.flip(0) > 1e-9 * values[-1]
    return np.asarray(vectors.flip(1)[:, there][:, : max(COMPONENTS)] * math.sqrt(len(z)))


def nonlinear_variance(seed: int = 0) -> dict[str, Any]:
    """What a linear model reads off the leading components, on points that it was not fitted to.

    For the circles the accuracy of telling them apart, for the Swiss roll R^2 of the position along it.
    """
    generator = torch.Generator().manual_seed(seed)
    points, inner = circles(generator)
    roll, along = swiss_roll(generator)

    def scores(z: Tensor, gamma: Any) -> dict[str, np.ndarray]:
        compared = {"Euclidean (linear kernel)": kernels.Linear(), **{n: kind(gamma) for n, kind in RADIAL.items()}}
        return {name: components(z, kernel) for name, kernel in compared.items()}

    circle_scores, roll_scores = scores(points, kernels.Median(multiple=0.5)), scores(roll, "median")
    accuracy = {n: _over_components(s, inner.numpy(), LogisticRegression(C=1e3)) for n, s in circle_scores.items()}
    r2 = {n: _over_components(s, along.numpy(), LinearRegression()) for n, s in roll_scores.items()}
    best = {n: LinearRegression().fit(s[::2, :10], along[::2]).predict(s[1::2, :10]) for n, s in roll_scores.items()}
    arrays = {"points": points.numpy(), "inner": inner.numpy(), "roll": roll.numpy(), "along": along.numpy()}
    numbers = {
        "components": list(COMPONENTS),
        "circles": {"points": CIRCLES, "bandwidth": "half the median", "accuracy": accuracy},
        "swiss_roll": {"points": ROLL, "bandwidth": "the median", "r2_of_position_along_it": r2},
    }
    return {**arrays, "circle_scores": circle_scores, "predicted": best, "numbers": numbers}


def _over_components(scores: np.ndarray, target: np.ndarray, model: Any) -> list[float]:
    """The model's score on every other point, fitted on the rest, with more and more components."""
    fitted = [model.fit(scores[::2, :k], target[::2]).score(scores[1::2, :k], target[1::2]) for k in COMPONENTS]
    return [round(float(score), 4) for score in fitted]


def batch_sizes_and_errors(seed: int = 0, draws: int = 40) -> dict[str, Any]:
    """How far the operator of b points is from the population's, for points uniform on a circle.

    There the population operator is known exactly: a kernel of the distance is a cosine series of the angle between
    two points, its coefficients are the eigenvalues, each twice, and cosines and sines are the eigenfunctions. The
    constant one is removed by centring. `operator`: the norm of the difference of the operators; `eigenvalue`: the
    largest difference of eigenvalues, which can be no larger (Weyl).
    """
    generator = torch.Generator().manual_seed(seed)
    errors: dict[str, dict[str, np.ndarray]] = {}
    spectra, population = {}, {}
    for name, kind in RADIAL.items():
        series = cosine_series(kernel := kind(1.0))
        population[name] = series.repeat_interleave(2).numpy()
        measured = [[_errors(kernel, series, b, generator) for _ in range(draws)] for b in BATCH_SIZES]
        operator, eigenvalue, spectra[name] = (np.array([[m[i] for m in row] for row in measured]) for i in range(3))
        errors[name] = {"operator": operator, "eigenvalue": eigenvalue}
    means = {n: {kind: np.round(v.mean(1), 6).tolist() for kind, v in e.items()} for n, e in errors.items()}
    slopes = {n: {kind: _slope(values) for kind, values in e.items()} for n, e in errors.items()}
    numbers = {"batch_sizes": list(BATCH_SIZES), "draws": draws, "mean_error": means, "slope": slopes}
    return {"errors": errors, "spectra": spectra, "population": population, "numbers": numbers}


def cosine_series(kernel: kernels.Kernel, terms: int = 512) -> Tensor:
    """Eigenvalues of the kernel on the uniform circle, one of each pair, without the constant's."""
    angle = 2 * math.pi * torch.arange(8192, dtype=torch.float64) / 8192
    row = kernel(_on_circle(angle[:1]), _on_circle(angle))[0]
    series: Tensor = torch.fft.rfft(row).real[1 : terms + 1] / len(row)
    return series.clamp_min(0)


def _errors(
    kernel: kernels.Kernel, coefficients: Tensor, b: int, generator: torch.Generator, terms: int = 64
) -> tuple[float, float, np.ndarray]:
    angle = 2 * math.pi * torch.rand(b, generator=generator, dtype=torch.float64)
    values = covariance_operator(_on_circle(angle), kernel).eigenvalues()
    expected = torch.zeros_like(values)
    pairs = coefficients.repeat_interleave(2)[: len(values)]
    expected[: len(pairs)] = pairs
    # the operator in the basis of the first 64 frequencies; the rest is smaller than what is measured
    multiples = angle[:, None] * torch.arange(1, terms + 1)
    features = torch.cat([multiples.cos(), multiples.sin()], 1) * (2 * coefficients[:terms]).sqrt().repeat(2)
    sample = torch.cov(features.T, correction=0)
    distance = torch.linalg.matrix_norm(sample - coefficients[:terms].repeat(2).diag(), ord=2)
    return float(distance), float((values - expected).abs().max()), values[:8].numpy()


def _on_circle(angle: Tensor) -> Tensor:
    return torch.stack([angle.cos(), angle.sin()], -1)


def _slope(errors: np.ndarray) -> float:
    """Of the logarithm of the mean error over that of the batch size."""
    return round(float(np.polyfit(np.log(BATCH_SIZES), np.log(errors.mean(1)), 1)[0]), 3)


def leaving_collapse(seed: int = 0, samples: int = 64, width: int = 16, steps: int = 300) -> dict[str, Any]:
    """Free embeddings, collapsed to a line plus noise, under gradient descent (Adam) on a variance term alone.

    The noise is a thousandth of unit variance. Both views are the same, so the invariance term is zero. The whole of
    VICReg, with its covariance term, is there for comparison.
    """
    start = _collapsed(seed, samples, width)
    ranks: dict[str, list[float]] = {}
    finals: dict[str, np.ndarray] = {}
    spectra: dict[int, np.ndarray] = {}
    for name, make in OBJECTIVES.items():
        objective, z = make(), start.clone().requires_grad_()
        optimizer = torch.optim.Adam([z], lr=0.02)
        ranks[name] = []
        for step in range(steps + 1):
            ranks[name].append(float(covariance_operator(z.detach(), "linear").effective_rank()))
            if name == "kernel variance term, RBF" and step in (0, 5, 10, 20, 50, steps):
                spectra[step] = covariance_operator(z.detach(), "rbf").eigenvalues().numpy()
            optimizer.zero_grad()
            objective(z, z).backward()
            optimizer.step()
        finals[name] = _shares(z.detach())
    numbers = {
        "samples": samples,
        "width": width,
        "steps": steps,
        "effective_rank_at_the_start": round(next(iter(ranks.values()))[0], 2),
        "effective_rank_at_the_end": {name: round(history[-1], 2) for name, history in ranks.items()},
    }
    return {"ranks": ranks, "finals": finals, "first": _shares(start), "spectra": spectra, "numbers": numbers}


def _collapsed(seed: int, samples: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    line = torch.randn(samples, 1, generator=generator) * torch.randn(1, width, generator=generator)
    return 0.1 * line + 1e-3 * torch.randn(samples, width, generator=generator)


def theory_fingerprint() -> str:
    """The gradients' norms where the descents begin, and an error of the operator: what changes when the code does."""
    norms = []
    for make in OBJECTIVES.values():
        z = _collapsed(0, 64, 16).double().requires_grad_()
        make()(z, z).backward()
        assert z.grad is not None
        norms.append(z.grad.norm().item())
    errors = _errors(kernels.RBF(1.0), cosine_series(kernels.RBF(1.0)), 32, torch.Generator().manual_seed(0))
    return as_text(*norms, *errors[:2])


def _shares(z: Tensor) -> np.ndarray:
    values = covariance_operator(z, "linear").eigenvalues().numpy()
    return np.asarray(values / values.sum())
