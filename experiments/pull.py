"""What every objective does to a spectrum: how hard its gradient pulls at a direction of the embeddings, by how much
they vary along it. Measured on the losses themselves, not on formulae."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from experiments.common import Experiment, Job, Result, write
from experiments.common.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, panels
from experiments.common.versions import as_text
from kvicreg import losses
from kvicreg.losses.terms import TermsLoss

Curves = dict[str, list[float]]
SAMPLES, DIRECTIONS, DECADES = 1024, 33, 4.0
SPECTRAL: dict[str, TermsLoss] = {
    "Kernel VICReg, linear": losses.KernelVICRegLoss("linear", covariance_weight=0.0, spectrum="per-view"),
    "its covariance term": losses.KernelVICRegLoss(
        "linear", variance_weight=0.0, covariance_weight=1.0, spectrum="per-view"
    ),
    "CorInfoMax (log det)": losses.CorInfoMaxLoss(),
    "coding rate": losses.CodingRateLoss(),
    "I-VNE (entropy)": losses.VNELoss(),
    "MMCR (nuclear norm)": losses.MMCRLoss(),
    "FroSSL (Frobenius norm)": losses.FroSSLLoss(),
}
GAUSSIAN: dict[str, TermsLoss] = {
    "VICReg": losses.VICRegLoss(),
    "VISReg": losses.VISRegLoss(slices=4096),
    "LeJEPA (SIGReg)": losses.LeJEPALoss(1.0, slices=4096),
    "KerJEPA, MMD": losses.KerJEPALoss("mmd", 1.0),
    "KerJEPA, Stein": losses.KerJEPALoss("stein", 1.0),
}
COLOURS = (BLUE, SKY, GREEN, ORANGE, PURPLE, RED, GREY)


@dataclass(frozen=True)
class Pull(Experiment, name="pull"):
    """Draw how hard each objective pulls at the directions of a spectrum, measured by its own gradient.

    Takes seconds and no data. Writes OUT/pull.json, .png and .svg.

    Example:
        python -m experiments pull --out docs/results
    """

    def run(self, job: Job) -> Result:
        eigenvalues, of_all = measured_pull()
        about = {"eigenvalues": eigenvalues.tolist(), "pull": of_all, "samples": SAMPLES}
        write(job.out / "pull.json", about | {"fingerprint": pull_fingerprint(of_all)})
        draw(eigenvalues.tolist(), of_all, job.out / "pull")
        return Result(job, [], [], about)


def measured_pull() -> tuple[Tensor, Curves]:
    """The variances of the embeddings along their axes, and how hard each objective pulls at each."""
    z, eigenvalues = embeddings()
    return eigenvalues, {name: pull(loss, z) for name, loss in {**SPECTRAL, **GAUSSIAN}.items()}


def pull_fingerprint(of_all: Curves | None = None) -> str:
    """How hard each objective pulls at the middle direction, which changes where the objective does."""
    return as_text(*(pulls[DIRECTIONS // 2] for pulls in (of_all or measured_pull()[1]).values()))


def embeddings() -> tuple[Tensor, Tensor]:
    """Embeddings ``(n, p)`` along whose axes the variances are spread over four decades, and those; their mean is 1."""
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(SAMPLES, DIRECTIONS, generator=generator, dtype=torch.float64)
    white = torch.linalg.svd(draws - draws.mean(0), full_matrices=False).U * SAMPLES**0.5
    eigenvalues = 10 ** (torch.linspace(-DECADES, 0, DIRECTIONS, dtype=torch.float64))
    eigenvalues = eigenvalues * (DIRECTIONS / eigenvalues.sum())
    return white * eigenvalues.sqrt(), eigenvalues


def pull(loss: TermsLoss, z: Tensor) -> list[float]:
    """``-d loss / d deviation`` of every axis, where both views agree: how hard descent pulls it up or down.

    In units of their mean size.
    """
    leaf = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss.terms(leaf, leaf).total, leaf)
    pulls = -(gradient * z).sum(0) / z.square().mean(0).sqrt()
    return [round(value, 5) for value in (pulls / pulls.abs().mean()).tolist()]


def draw(eigenvalues: list[float], of_all: Curves, path: Path) -> None:
    """Spectral objectives on the left, those that ask for unit variances or a Gaussian on the right."""
    title = "Who lifts the weak directions, and who only holds down the strong ones"
    detail = (
        "The gradient by a direction's standard deviation, in units of its mean size, by the variance along it: "
        f"{DIRECTIONS} directions over {DECADES:.0f} decades, views that agree."
    )
    with panels(path, (15, 6.4), title, detail, 2, sharey=True) as ((left, right),):
        for axes, names in ((left, SPECTRAL), (right, GAUSSIAN)):
            for colour, name in zip(COLOURS, names, strict=False):
                axes.plot(eigenvalues, of_all[name], color=colour, label=name)
            axes.axhline(0, color="black", linewidth=0.8)
            axes.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
            axes.set(xscale="log", xlabel="variance along the direction, in units of the mean", ylim=(-4, 4))
            axes.legend(loc="lower left")
            axes.grid(axis="y")
        left.set(title="functions of the spectrum", ylabel="down                    up")
        right.set_title("unit variances, or a Gaussian")
