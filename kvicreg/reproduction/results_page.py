"""docs/results.md and the measured part of docs/parametrization.md, made of the result files that are there."""

from __future__ import annotations

import json
from pathlib import Path

from kvicreg.reproduction.pages import fill
from kvicreg.storage import write_atomically

__all__ = ["results_page", "study_section", "write"]

OPENING = """# Results

Every number here is from a file in [results](results) that a command of this package wrote; this page is written by
`kvicreg reproduce page`. A file's JSON holds the settings of the run behind each number: those that all rows share
under `shared`, the others beside the row.

    kvicreg reproduce all --budget smoke                          # everything in small, on made-up images
    kvicreg reproduce table2 --part 1/2 --out docs/results        # one table; half of its runs
    kvicreg reproduce proof --study docs/results/study.json

Budgets: *smoke* tries the commands in a minute, *small* is two cores and some hours, *full* is the paper's setting by
the shipped recipes, for GPUs. Each number is of a run folder like any other; finished runs are skipped, those cut short
are resumed, and machines that share the folder share the work with `--part`. Runs that a table in `--out` already has
are not made again, so that a table can be continued from its file alone. *small* and *full* train in bfloat16 where the
hardware has it, else in float32; the column `precision` tells.

Elsewhere: [the study of the settings](parametrization.md), [choosing without labels](selection.md),
[groups](fairness.md), [what the loss costs](scaling.md), [reliability](reliability.md).
"""
SECTIONS: dict[str, tuple[str, str]] = {
    "proof": (
        "The defaults on trial",
        "One triple of weights for every kernel, against VICReg at equal budget, on the test sets. VICReg runs with "
        "its published weights and with one triple tuned for all three data sets: the best of a grid of twelve on "
        "held-out training images ([the study](parametrization.md), one seed, an encoder half as wide). The kernels' "
        "own weights and threshold were settled on held-out training images too.",
    ),
    "mnist": (
        "All of MNIST",
        "The shipped recipe on the whole training set, at the small budget one pass over it; the kernel is chosen on "
        "held-out images.",
    ),
    "mnist-": (
        "All of MNIST, for longer",
        "More passes over the images; what else differs from the table above, such as `early_pool`, is in the JSON.",
    ),
    "table2": (
        "The paper's Table 2: MNIST and CIFAR-10",
        "Ours beside the paper's numbers. At the small budget that is a small CNN and 6 epochs of 10,000 images, where "
        "the paper has a ResNet-18 and all of them: rows compare, differences to the paper on CIFAR-10 do not.",
    ),
    "table3": ("The paper's Table 3: from CIFAR-10 to STL-10", "Encoders trained on CIFAR-10, probed on STL-10."),
    "table1": ("The paper's Table 1: ImageNet100 and TinyImageNet", "With eight other methods."),
    "peers-": ("All methods under one roof", "The same encoder, images, views, optimizer and budget."),
    "figure-umap": ("What three encoders see", "UMAP of MNIST's test images."),
    "figure-eigenvalues": ("Eigenvalues over training", "Of the centred operator of a fixed batch, after every epoch."),
    "figure-polynomial": ("Robustness: the polynomial kernel", "Under rotation and loss of contrast."),
    "figure-rbf": ("Robustness: the RBF kernel", "Under rotation and loss of contrast."),
    "collapse-map": ("Who collapses where", "VICReg beside Kernel VICReg, scored on held-out training images."),
}
"""Stem of the files (with a dash at the end: all that begin so), title, and a sentence."""


def results_page(results: Path) -> str:
    """The page: a section for every result file that is there, by the order above; links are relative to docs/."""
    parts = [OPENING]
    for stem, (title, sentence) in SECTIONS.items():
        found = sorted(results.glob(f"{stem}*.json" if stem.endswith("-") else f"{stem}.json"))
        if not found:
            command = {"peers-": "peers", "mnist-": "mnist --epochs 10"}.get(stem, stem)
            parts += [f"## {title}\n", f"{sentence} Not run yet: `kvicreg reproduce {command}`.\n"]
            continue
        parts += [f"## {title}\n", f"{sentence}\n"]
        for path in found:
            parts.append(_section(path, named=stem.endswith("-")))
    return "\n".join(parts)


def study_section(results: Path) -> str:
    """The study's tables and pictures, for docs/parametrization.md."""
    path = results / "study.json"
    return _section(path, named=False) if path.is_file() else "Not run yet: `kvicreg reproduce study`.\n"


def _section(path: Path, *, named: bool) -> str:
    about = json.loads(path.read_text())
    text = path.with_suffix(".md").read_text().replace("\n## ", "\n#### ").replace("\n### ", "\n#### ")
    pictures = sorted(path.parent.glob(f"{path.stem}*.png"))
    shown = [f"![{picture.stem}](results/{picture.name})\n" for picture in pictures]
    files = ", ".join(f"[{kind}](results/{path.stem}.{kind})" for kind in ("json", "csv"))
    heading = [f"### {path.stem}\n"] if named else []
    return "\n".join([*heading, *shown, text, f"Budget: {about['budget']}. Files: {files}.\n"])


def write(docs: Path) -> list[Path]:
    """Write results.md, and the measured part of parametrization.md, into the folder of documents."""
    results, page, study = docs / "results", docs / "results.md", docs / "parametrization.md"
    if not results.is_dir():
        raise FileNotFoundError(f"{results} is not there: results are written into it with --out {results}")
    write_atomically(page, results_page(results).encode())
    if not study.is_file():
        return [page]
    fill(study, "study", study_section(results))
    return [page, study]
