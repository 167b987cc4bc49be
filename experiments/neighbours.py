"""Kernel VICReg and its neighbours: the spectral family, one spectrum or several, more views at equal compute.

All on held-out training images, with the study's narrow encoder; the test sets play no part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from experiments.common import Cell, Experiment, Job, Result, Row, tables
from kvicreg.data import DATA_SETS

Variants = dict[str, dict[str, Any]]
Topic = Literal["family", "constants", "weights", "threshold", "batches", "spectrum", "views"]


def _weights(method: str, setting: str, *values: float) -> Variants:
    return {f"{method}, {setting} {value:g}": {"method": method, setting: value} for value in values}


def _form(kernel: str, spectrum: str, bandwidth: str, weights: tuple[float, ...] = ()) -> dict[str, Any]:
    names = ("invariance_weight", "variance_weight", "covariance_weight")
    form = {"kernel": kernel, "spectrum": spectrum, **dict(zip(names, weights, strict=False))}
    return form if kernel == "linear" else form | {"bandwidth": bandwidth}


MMD, STEIN = ({"method": "kerjepa", "discrepancy": discrepancy} for discrepancy in ("mmd", "stein"))
WHITE = {"method": "w-mse", "projector_outputs": 64}  # whitening needs more images in a batch than outputs
EQUAL, SHARED = {"epochs": 3, "batch_size": 128}, {"spectrum": "shared"}
PHOTOGRAPHS: dict[str, Any] = {
    "images": None, "holdout": 1_500, "image_size": 64, "views": "small", "encoder": "small-cnn", "width": 0.5,
    "epochs": 15, "projector_hidden": 1024, "projector_outputs": 1024, "workers": 0,
}  # fmt: skip
LONGER: dict[str, Any] = {"images": None, "epochs": 10}
TOPICS: dict[Topic, Variants] = {
    "family": {
        "kernel-vicreg, rbf": {"kernel": "rbf"},
        "kernel-vicreg, linear": {"kernel": "linear"},
        "vicreg": {"method": "vicreg"},
        "mmcr": {"method": "mmcr"},
        "mmcr, rbf": {"method": "mmcr", "kernel": "rbf"},
        "frossl": {"method": "frossl"},
        "coding-rate": {"method": "coding-rate"},
        "corinfomax": {"method": "corinfomax"},
        "i-vne": {"method": "i-vne"},
        "w-mse": WHITE,
        "lejepa": {"method": "lejepa"},
        "kerjepa, mmd": MMD,
        "kerjepa, stein": {**STEIN, "projector_outputs": 16},  # wider it does not train: see the constants
        "visreg": {"method": "visreg"},
    },
    "constants": {
        **_weights("frossl", "invariance_weight", 1, 4, 16),
        **_weights("i-vne", "entropy_weight", 0.1, 0.3, 1),
        **_weights("coding-rate", "similarity_weight", 50, 200, 800),
        **_weights("corinfomax", "attraction", 100, 500, 2500),
        **_weights("lejepa", "sigreg_weight", 0.02, 0.05, 0.2),
        **{f"kerjepa, stein, {weight:g}": {**STEIN, "discrepancy_weight": weight} for weight in (0.001, 0.01, 0.05)},
        **{f"kerjepa, stein, {width} outputs": {**STEIN, "projector_outputs": width} for width in (16, 64)},
        **{f"kerjepa, mmd, {weight:g}": {**MMD, "discrepancy_weight": weight} for weight in (0.001, 0.01, 0.05)},
        **_weights("visreg", "shape_weight", 0.25, 1, 4),
    },
    "weights": {
        "vicreg": {"method": "vicreg"},
        "rbf, per view, median, 1 : 1": _form("rbf", "per-view", "median", (1, 1, 0.02)),
        "rbf, per view, median, 4 : 1": _form("rbf", "per-view", "median", (4, 1, 0.02)),
        "rbf, shared, median, 4 : 2": _form("rbf", "shared", "median", (4, 2, 0.04)),
        **{f"rbf, shared, mean, {w} : 2": _form("rbf", "shared", "mean", (w, 2, 0.04)) for w in (1, 4, 12)},
        "linear, shared, 4 : 2": _form("linear", "shared", "", (4, 2, 0.04)),
    },
    "threshold": {
        "rbf": {"kernel": "rbf"},
        "rbf, threshold 0.8": {"kernel": "rbf", "threshold": 0.8},
        "rbf, threshold 0.8, invariance 4": {"kernel": "rbf", "threshold": 0.8, "invariance_weight": 4.0},
    },
    "batches": {
        f"{name}, batches of {size}": {**form, "batch_size": size}
        for size in (64, 256)
        for name, form in (("rbf", {"kernel": "rbf"}), ("vicreg", {"method": "vicreg"}))
    },
    "spectrum": {
        "vicreg": {"method": "vicreg"},
        **{
            f"rbf, {spectrum}, {rule}": _form("rbf", spectrum, rule)
            for spectrum in ("per-view", "shared")
            for rule in ("median", "mean")
        },
        **{f"linear, {spectrum}": _form("linear", spectrum, "") for spectrum in ("per-view", "shared")},
    },
    "views": {
        "2 views": {},
        "4 views, half of the epochs and of the batch": {"views_per_image": 4, **SHARED, **EQUAL},
        "2 views, 4 smaller crops": {"local_crops": 4, **SHARED, "epochs": 4, "batch_size": 168},
        "4 views, a spectrum for each": {"views_per_image": 4, "spectrum": "per-view", **EQUAL},
        "1,000 images, 2 views": {"images": 1_000, "epochs": 60},
        "1,000 images, 4 views": {"images": 1_000, "views_per_image": 4, **SHARED, "epochs": 30, "batch_size": 128},
    },
}
"""What is compared, by the name of its line: the settings on top of the budget's."""
BETTER = ("kernel-vicreg, rbf", "kernel-vicreg, linear", "vicreg", "mmcr", "mmcr, rbf", "i-vne", "corinfomax")
"""The better half of the family by its first seed: the others have that one alone."""
PAGES = {
    "family": "kernel-family.md",
    "constants": "kernel-family.md",
    "views": "training.md",
    "batches": "training.md",
    "weights": "parametrization.md",
    "threshold": "parametrization.md",
    "spectrum": "parametrization.md",
}


@dataclass(frozen=True)
class Neighbours(Experiment, name="neighbours"):
    """Compare Kernel VICReg with the spectral family, one spectrum with several, and two views with more.

    Topics: family (every method beside Kernel VICReg and VICReg), constants (their weights, each by itself), weights
    (how much the invariance weighs, for longer, on a folder of photographs), threshold (the same of the variance's, on
    all images of a data set), batches (their size, on photographs), spectrum (one shared by all views, or one for each;
    the median, or the mean with its gradient), views (more of them at equal images times views).

    Examples:
        python -m experiments neighbours --topic family --seeds 0
        python -m experiments neighbours --topic weights --data photos --seeds 0
    """

    split = "validation"
    few = {"data": ("mnist",)}

    topic: Topic = "family"
    """What is compared."""
    data: tuple[str, ...] = ("cifar10", "fashion-mnist", "mnist")
    """Data sets."""

    @property
    def stem(self) -> str:
        return f"neighbours-{self.topic}"

    def cells(self, job: Job) -> list[Cell]:
        variants = TOPICS[self.topic]
        if job.budget == "smoke":  # one that has a spectrum, and one that has not
            variants = {name: variants[name] for name in ("mmcr, rbf", "lejepa") if name in variants} or variants
        return [
            job.cell({"name": name}, data=data, seed=seed, **{**self.shared(job, data), **settings})
            for data in self.data
            for seed in job.seeds
            for name, settings in variants.items()
            if self.topic != "family" or seed == job.seeds[0] or name in BETTER
        ]

    def shared(self, job: Job, data: str) -> dict[str, Any]:
        """What all lines of a data set have in common beside the budget's settings."""
        if job.budget == "smoke" or self.topic not in ("weights", "threshold", "batches"):
            return job.narrow
        return PHOTOGRAPHS if data not in DATA_SETS else LONGER

    def table(self, result: Result) -> str:
        if not result.rows:
            return super().table(result)
        return "\n".join([*result.opening(), scores_table(tables.named(result.rows)), ""])


def scores_table(rows: Sequence[Row]) -> str:
    """A line for each name, the best first; for each data set the linear probe, that on few labels, and 20-NN."""
    of, sources = tables.groups(rows, "name", "data"), [*tables.groups(rows, "data")]

    def text(same: Sequence[Row]) -> str:
        others = (f"{100 * tables.average(same, score):.1f}" for score in ("probe_few", "knn"))
        return " / ".join([tables.percent(same), *others])

    names = sorted(
        tables.groups(rows, "name"), key=lambda name: -mean(r.get("probe", 0) for r in rows if r["name"] == name)
    )
    lines = [[name, *(text(of[name, data]) if (name, data) in of else "" for data in sources)] for name in names]
    return tables.markdown(["linear probe / with 1,000 labels / 20-NN", *sources], lines)


def parts_of_pages(results: Path) -> Iterator[tuple[str, str, str]]:
    """For each topic that pages show: the page, the name of the part, and its text."""
    for topic, page in PAGES.items():
        name = f"neighbours-{topic}"
        yield page, name, tables.part_of_page(results / f"{name}.json", f"neighbours --topic {topic}")
