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


def selection(
    data: tuple[str, ...] = ("mnist", "fashion-mnist", "cifar10"),
    out: Path = Path("docs/results/selection"),
    runs: Path = Path("runs/selection"),
    images: int = 10_000,
    holdout: int = 5_000,
    seeds: tuple[int, ...] = (0,),
    part: str = "1/1",
    page: Path | None = None,
    evidence: Path | None = None,
    data_root: str | None = None,
) -> str:
    """Measure which label-free criterion tells how well a probe would do, and the regret of choosing by it.

    Trains every candidate of kvicreg select, 20 runs of 8 epochs for each data set and seed, a minute each on one core;
    finished runs are skipped, so it can be stopped and started again. Labels decide nothing but the table.

    Examples:
        kvicreg reproduce selection --seeds 0 1 --page docs/selection.md --evidence kvicreg/selection/evidence.json
        kvicreg reproduce selection --part 1/2 & kvicreg reproduce selection --part 2/2

    Args:
        data: labelled data sets.
        out: folder to write: DATA.json for each data set that is complete, and a figure of all.
        runs: where the run folders go.
        images: training images.
        holdout: training images set aside to score probes on.
        seeds: of the weights, the order of the data and the views.
        part: K/N: only the K-th of N parts of the runs; other processes do the others.
        page: documentation page whose tables to write.
        evidence: file to write what advice and the default criterion rest on.
        data_root: where data sets live.
    """
    import json

    from kvicreg.reproduction import selection_tables as tables
    from kvicreg.reproduction.jobs import part_of
    from kvicreg.reproduction.pages import fill
    from kvicreg.reproduction.selection import run, shared_config
    from kvicreg.reproduction.selection_figures import draw
    from kvicreg.storage import write_atomically

    written = []
    for name in data:
        config = shared_config(name, images=images, holdout=holdout, data_root=data_root)
        path = run(config, out, runs, seeds=seeds, part=part_of(part), say=lambda line: print(line, flush=True))
        written += [str(path)] if path else []
    if len(written) == len(data):
        results = tables.read(out)
        print(tables.markdown(results))
        draw(results, out / "selection")
        if page is not None:
            fill(page, "selection", tables.markdown(results))
        if evidence is not None:
            write_atomically(evidence, json.dumps(tables.evidence(results), indent=1).encode() + b"\n")
    return f"Results: {', '.join(written) or 'not complete yet, run folders in ' + str(runs)}"


def fairness(
    data: str = "mnist",
    out: Path = Path("docs/results/fairness"),
    runs: Path = Path("runs/fairness"),
    images: int = 20_000,
    epochs: int = 10,
    kernel: str = "rbf",
    seeds: tuple[int, ...] = (0, 1, 2),
    part: str = "1/1",
    page: Path | None = None,
    data_root: str | None = None,
) -> str:
    """Train on images with a minority of 2 %, with and without group-fair terms, and compare the groups.

    18 runs, two to three minutes each on one core; finished runs are skipped.

    Example:
        kvicreg reproduce fairness --seeds 0 1 2 --page docs/fairness.md

    Args:
        data: labelled data set of digits.
        out: folder to write: fairness.json and a figure of the spectra.
        runs: where the run folders go.
        images: training images.
        epochs: passes over them.
        kernel: as for kvicreg train.
        seeds: of the weights, the order of the data and the views.
        part: K/N: only the K-th of N parts of the runs; other processes do the others.
        page: documentation page whose table to write.
        data_root: where data sets live.
    """
    from kvicreg.reproduction import fairness_tables as tables
    from kvicreg.reproduction.fairness import run
    from kvicreg.reproduction.fairness_figures import draw
    from kvicreg.reproduction.jobs import part_of
    from kvicreg.reproduction.pages import fill
    from kvicreg.training.config import TrainConfig

    config = TrainConfig(
        data=data, data_root=data_root, images=images, epochs=epochs, kernel=kernel, batch_size=512, width=0.5,
        projector_hidden=512, projector_outputs=512, precision="auto", probe_images=0, log_every=1000,
    )  # fmt: skip
    path = run(config, out, runs, seeds=seeds, part=part_of(part), say=lambda line: print(line, flush=True))
    if path is not None:
        results = tables.read(out)
        print(tables.markdown(results))
        draw(results, out / "fairness")
        if page is not None:
            fill(page, "fairness", tables.markdown(results))
    return f"Results: {path or 'not complete yet, run folders in ' + str(runs)}"


def study(
    budget: Budget = "small",
    families: tuple[str, ...] = ("linear", "rbf", "vicreg"),
    data: tuple[str, ...] = ("fashion-mnist", "cifar10"),
    seeds: tuple[int, ...] = (0,),
    part: str = "1/1",
    runs: Path = Path("runs/cells"),
    out: Path = Path("runs/results"),
    data_root: str | None = None,
) -> str:
    """Vary each setting of the loss by itself, and tune VICReg, on held-out training images.

    Some 200 runs of half a minute each on one core at the small budget. Runs that are finished are skipped and those
    cut short are resumed.

    Example:
        kvicreg reproduce study --part 1/2

    Args:
        budget: smoke (made-up images, seconds), small (two cores, hours) or full (ResNet-18, a GPU).
        families: what to vary: linear, rbf, vicreg; simclr, moco, byol, barlow-twins, ssl-hsic.
        data: data sets.
        seeds: one run of every variation for each.
        part: K/N: run the K-th of N shares, for machines that share the folder of runs.
        runs: folder of the run folders.
        out: folder to write: study.md, .csv, .json and a figure for each data set.
        data_root: where data sets live.
    """
    from kvicreg.reproduction.study import run

    run(_job(budget, part, runs, out, data_root, "validation"), families=families, data=data, seeds=seeds)
    return f"Study: {out}/study.md (and .csv, .json), figures {out}/study-*.png"


def proof(
    budget: Budget = "small",
    data: tuple[str, ...] = ("mnist", "fashion-mnist", "cifar10"),
    seeds: tuple[int, ...] = (0, 1, 2),
    grid_data: str = "cifar10",
    grid_seeds: tuple[int, ...] = (0,),
    study: Path | None = None,
    part: str = "1/1",
    runs: Path = Path("runs/cells"),
    out: Path = Path("runs/results"),
    data_root: str | None = None,
) -> str:
    """Put the defaults on trial: every kernel with one triple of weights against VICReg, on test sets.

    VICReg runs with its published weights and with those that the study has chosen. Run it once, after the defaults
    are settled. Runs that are finished are skipped and those cut short are resumed.

    Example:
        kvicreg reproduce proof --study docs/results/study.json --part 1/2

    Args:
        budget: smoke (made-up images, seconds), small (two cores, hours) or full (ResNet-18, a GPU).
        data: data sets.
        seeds: one run of everything for each.
        grid_data: where batch size, width and number of training images vary; "" for nowhere.
        grid_seeds: of those.
        study: result file of kvicreg reproduce study; by default OUT/study.json.
        part: K/N: run the K-th of N shares, for machines that share the folder of runs.
        runs: folder of the run folders.
        out: folder to write: proof.md, .csv, .json and figures.
        data_root: where data sets live.
    """
    from kvicreg.reproduction.proof import run

    job = _job(budget, part, runs, out, data_root)
    run(job, data=data, seeds=seeds, grid_data=grid_data, grid_seeds=grid_seeds, study=study)
    return f"Proof: {out}/proof.md (and .csv, .json), figures {out}/proof.png, {out}/proof-grids.png"


def mnist(
    budget: Budget = "small",
    epochs: int | None = None,
    names: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (),
    part: str = "1/1",
    runs: Path = Path("runs/cells"),
    out: Path = Path("runs/results"),
    data_root: str | None = None,
) -> str:
    """All of MNIST by the shipped recipe: every kernel, VICReg, and the kernel validation chooses.

    Runs that are finished are skipped and those cut short are resumed.

    Examples:
        kvicreg reproduce mnist --part 1/2 & kvicreg reproduce mnist --part 2/2
        kvicreg reproduce mnist --epochs 10 --names rbf "vicreg, published" --seeds 0

    Args:
        budget: smoke (made-up images, seconds), small (1 epoch) or full (the recipe's 20).
        epochs: passes over the images, in place of the budget's; the table is then called mnist-EPOCHS-epochs.
        names: only these: kernels, "vicreg, published", supervised.
        seeds: one run of everything for each; by default 0 1 2, at smoke size 0.
        part: K/N: run the K-th of N shares, for machines that share the folder of runs.
        runs: folder of the run folders.
        out: folder to write the table to.
        data_root: where data sets live.
    """
    from kvicreg.reproduction.mnist import run

    run(_job(budget, part, runs, out, data_root, seeds=seeds), epochs=epochs, names=names)
    return f"Table: {out}/mnist{f'-{epochs}-epochs' if epochs else ''}.md (and .csv, .json)"


def page(docs: Path = Path("docs")) -> str:
    """Write docs/results.md, and the measured part of docs/parametrization.md, from the files in docs/results.

    Example:
        kvicreg reproduce page --docs docs

    Args:
        docs: folder of documents, with the folder results in it.
    """
    from kvicreg.reproduction.results_page import write

    return f"Pages: {', '.join(map(str, write(docs)))}"


def _job(
    budget: Budget,
    part: str,
    runs: Path,
    out: Path,
    data_root: str | None,
    on: On = "test",
    seeds: tuple[int, ...] = (),
) -> Any:
    from kvicreg.reproduction.jobs import Job, part_of

    return Job(budget, runs, out, part_of(part), on, data_root, lambda line: print(line, flush=True), seeds)


def _experiment(name: str, summary: str) -> Callable[..., str]:
    """The command of an experiment that asks for no more than all do."""

    def run(
        budget: Budget = "small",
        seeds: tuple[int, ...] = (),
        part: str = "1/1",
        runs: Path = Path("runs/cells"),
        out: Path = Path("runs/results"),
        data_root: str | None = None,
    ) -> str:
        from kvicreg.reproduction import everything

        job = _job(budget, part, runs, out, data_root, seeds=seeds)
        everything.run(job) if name == "all" else everything.EXPERIMENTS[name](job)
        return f"Results: {out}" if name in ("all", "figure-latency") else f"Results: {out}/{name}.md (and .csv, .json)"

    run.__doc__ = f"""{summary}

    Runs that are finished are skipped and those cut short are resumed; experiments share the runs they have in common.

    Examples:
        kvicreg reproduce {name} --budget smoke
        kvicreg reproduce {name} --part 1/2 & kvicreg reproduce {name} --part 2/2

    Args:
        budget: smoke (made-up images, seconds), small (two cores, hours) or full (the paper's setting, GPUs).
        seeds: one run of every cell for each; by default 0 1 2, at smoke size 0.
        part: K/N: run the K-th of N shares, for machines that share the folder of runs.
        runs: folder of the run folders.
        out: folder to write tables, figures and numbers to.
        data_root: where data sets live.
    """
    return run


SUMMARIES = {
    "table1": "The paper's Table 1: ImageNet100 and TinyImageNet, with eight other methods.",
    "table2": "The paper's Table 2: MNIST and CIFAR-10.",
    "table3": "The paper's Table 3: from CIFAR-10 to STL-10.",
    "figure-umap": "The paper's UMAP of MNIST: VICReg, linear and Laplacian kernels side by side.",
    "figure-eigenvalues": "The leading eigenvalues of the centred operator over training.",
    "figure-polynomial": "Robustness of the polynomial kernel on MNIST, by degree and constant.",
    "figure-rbf": "Robustness of the RBF kernel on MNIST, by gamma.",
    "figure-latency": "The paper's latency and memory figures (kvicreg bench loss).",
    "collapse-map": "Who collapses where: VICReg beside Kernel VICReg over batch size, rate, width and weight.",
    "all": "Every table and figure, the study, the proof and the theory.",
}

COMMANDS: dict[str, Callable[..., str]] = {
    "reproduce theory": theory,
    "reproduce peers": peers,
    "reproduce selection": selection,
    "reproduce fairness": fairness,
    "reproduce study": study,
    "reproduce proof": proof,
    "reproduce mnist": mnist,
    **{f"reproduce {name}": _experiment(name, summary) for name, summary in SUMMARIES.items()},
    "reproduce page": page,
}
