"""Every experiment by name, and all of them in the order in which they use each other's runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kvicreg.benchmarks import loss
from kvicreg.reproduction import collapse, mnist, paper_tables, pictures, proof, shifts, study, theory
from kvicreg.reproduction.jobs import Job

__all__ = ["EXPERIMENTS", "run"]


def _latency(job: Job) -> Any:
    """Time and memory over width and batch size; the benchmark's own sizes unless it is a trial."""
    few: dict[str, Any] = {"sizes": ("32x256", "32x1024", "64x1024"), "scaling_sizes": (), "repeats": 1}
    few |= {"kernel_names": ("linear", "polynomial", "rbf")}
    return loss.run(job.out / "bench-loss", **(few if job.budget == "smoke" else {}))


def _collapse(job: Job) -> Any:
    return collapse.run(replace(job, on="validation"))


def _study(job: Job) -> Any:
    few: dict[str, Any] = {"data": ("mnist",)} if job.budget == "smoke" else {}
    return study.run(replace(job, on="validation"), **few)


def _proof(job: Job) -> Any:
    few: dict[str, Any] = {"data": ("mnist",), "grid_data": "mnist"} if job.budget == "smoke" else {}
    return proof.run(job, seeds=job.seeds, **few)


def _theory(job: Job) -> Any:
    few: dict[str, Any] = {"draws": 1, "steps": 50} if job.budget == "smoke" else {}
    return theory.run(job.out / "theory", **few)


EXPERIMENTS: dict[str, Callable[[Job], Any]] = {
    "table1": partial(paper_tables.run, name="table1"),
    "table2": partial(paper_tables.run, name="table2"),
    "table3": partial(paper_tables.run, name="table3"),
    "mnist": mnist.run,
    "figure-umap": pictures.umap,
    "figure-eigenvalues": pictures.eigenvalues,
    "figure-polynomial": shifts.polynomial,
    "figure-rbf": shifts.rbf,
    "figure-latency": _latency,
    "collapse-map": _collapse,
    "study": _study,
    "proof": _proof,
    "theory": _theory,
}


def run(job: Job) -> None:
    """All experiments; each tells when it begins."""
    for number, (name, experiment) in enumerate(EXPERIMENTS.items(), 1):
        job.say(f"--- {number}/{len(EXPERIMENTS)} {name}")
        experiment(job)
