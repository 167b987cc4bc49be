"""The commands `kvicreg reproduce ...`, in the way of `cli`: thin, typed, imported lazily."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

Budget = Literal["smoke", "small", "full"]
On = Literal["validation", "test"]


def theory(out: Path = Path("runs/theory"), seed: int = 0) -> str:
    """Measure and draw the paper's theory: nonlinear variance, spectral stability, non-collapse.

    Takes a few minutes and no data.

    Example:
        kvicreg reproduce theory --out runs/theory

    Args:
        out: folder to write: figures/theory-*.png and .svg, results/theory.json.
        seed: seed of the points that are drawn.
    """
    from kvicreg.reproduction.theory import run

    run(out, seed)
    return f"Figures: {out / 'figures'}, numbers: {out / 'results' / 'theory.json'}"


def peers(
    data: str = "mnist-small",
    budget: Budget = "small",
    seeds: tuple[int, ...] = (0,),
    methods: tuple[str, ...] = (),
    on: On = "test",
    epochs: int | None = None,
    images: int | None = None,
    holdout: int | None = None,
    part: str = "1/1",
    runs: Path = Path("runs/cells"),
    out: Path = Path("runs/results"),
    data_root: str | None = None,
) -> str:
    """Train every method on the same images, encoder and budget, and compare them in one table.

    Controls are raw pixels, the encoder untrained, and the encoder trained with labels. Runs that are finished are
    skipped and those cut short are resumed. Constants of methods are to be tuned with --on validation.

    Examples:
        kvicreg reproduce peers --data mnist-small --images 6000 --holdout 1000 --seeds 0 1
        kvicreg reproduce peers --data cifar10 --on validation --methods simclr byol --part 1/2

    Args:
        data: labelled data set by name, or a folder with train and test images.
        budget: smoke (seconds a run), small (half a minute on one core) or full (ResNet-18, 200 epochs).
        seeds: of the weights, the order of the data and the views; one run of every method for each.
        methods: only these, as kvicreg train --method names them; all unless given.
        on: score on the test set, or on training images that are held out.
        epochs: passes over the images, in place of the budget's.
        images: training images, in place of the budget's.
        holdout: training images set aside for validation, in place of the budget's.
        part: K/N: run the K-th of N shares, for machines that share the folder of runs.
        runs: folder of the run folders.
        out: folder to write: peers-DATA.md, .csv and .json.
        data_root: where data sets live.
    """
    from kvicreg.reproduction.peers import run

    given = {"epochs": epochs, "images": images, "holdout": holdout}
    own = {name: value for name, value in given.items() if value is not None}
    run(_job(budget, part, runs, out, data_root, on), data, seeds=seeds, methods=methods, **own)
    return f"Table: {out}/peers-{Path(data).name}{'' if on == 'test' else '-validation'}.md (and .csv, .json)"


def _job(budget: Budget, part: str, runs: Path, out: Path, data_root: str | None, on: On = "test") -> Any:
    from kvicreg.reproduction.jobs import Job, part_of

    return Job(budget, runs, out, part_of(part), on, data_root, lambda line: print(line, flush=True))


COMMANDS: dict[str, Callable[..., str]] = {"reproduce theory": theory, "reproduce peers": peers}
