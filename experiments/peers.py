"""All methods under one roof: same encoder, images, views, optimizer, budget and evaluation, in one table.

Controls: raw pixels, the same encoder untrained, and the same encoder trained with labels. A method's own constants are
to be chosen on validation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.common import Cell, Experiment, Job, Result, Split
from experiments.neighbours import TOPICS
from kvicreg.methods import METHODS

KERNELS = ("linear", "laplacian", "rq")  # of Kernel VICReg, beside rbf, which every kernel method runs with
NARROW = {"w-mse": {"projector_outputs": 64}}  # whitening needs more images in a batch than outputs
PEERS: list[tuple[str, dict[str, Any]]] = [
    (method, {"kernel": kernel} if kernel else NARROW.get(method, {}))
    for method in sorted(METHODS.load())
    for kernel in (("rbf",) if method.startswith("kernel-") else ("",)) + (KERNELS * (method == "kernel-vicreg"))
]
"""Method and kernel of every row."""
NEIGHBOURS = {settings.get("method") for settings in TOPICS["family"].values()} - {None, "vicreg"}
"""The spectral family, which has a table of its own."""
SHARED = (
    "data", "images", "holdout", "encoder", "width", "pool", "epochs", "batch_size", "optimizer", "learning_rate",
    "weight_decay", "warmup_epochs", "projector_layers", "projector_hidden", "projector_outputs",
)  # fmt: skip


@dataclass(frozen=True)
class Peers(Experiment, name="peers"):
    """Train every method on the same images, encoder and budget, and compare them in one table.

    Constants of methods are to be tuned with --on validation.

    Examples:
        python -m experiments peers --data mnist-small --images 7000 --holdout 1000 --epochs 3
        python -m experiments peers --data cifar10 --on validation --methods simclr byol --part 1/2
    """

    former = True
    usual_seeds = (0,)
    few = {"methods": ("kernel-simclr", "ssl-hsic")}

    data: str = "mnist-small"
    """Labelled data set by name, or a folder with train and test images."""
    methods: tuple[str, ...] = ()
    """Only these, as kvicreg train --method names them; unless given, all but those that `neighbours` compares."""
    on: Split = "test"
    """Score on the test set, or on training images that are held out (validation)."""
    epochs: int | None = None
    """Passes over the images, in place of the budget's."""
    images: int | None = None
    """Training images, in place of the budget's."""
    holdout: int | None = None
    """Training images set aside for validation, in place of the budget's."""

    def prepared(self, job: Job) -> Job:
        return replace(super().prepared(job), on=self.on)

    @property
    def stem(self) -> str:
        return f"peers-{Path(self.data).name}{'' if self.on == 'test' else '-validation'}"

    def cells(self, job: Job) -> list[Cell]:
        for method in self.methods:
            METHODS.find(method)
        given = {name: getattr(self, name) for name in ("data", "epochs", "images", "holdout")}
        shared: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return [
            job.cell(**shared, method=method, seed=seed, **kernel)
            for seed in job.seeds
            for method, kernel in PEERS
            if (method in self.methods if self.methods else method not in NEIGHBOURS)
        ]

    def table(self, result: Result) -> str:
        shared = ", ".join(f"{name} {result.cells[0].config[name]}" for name in SHARED)
        return f"{super().table(result)}Shared by all: {shared}.\n"
