"""The command line: one thin function per command, imported lazily so that `kvicreg --help` is immediate.

A command is a typed function (tyro turns its signature into flags, its docstring into help) that returns its
last line: what it wrote. To add one, write the function (parameters before "/" are positional) and name it in
COMMANDS.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Set KVICREG_DEBUG=1 to see tracebacks.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from kvicreg.reproduce import COMMANDS as REPRODUCTIONS

asked: list[str] = []
"""The command line being served, as results remember it."""

# --------------------------------------------------------------------------- the commands


def demo(out: Path = Path("runs/demo"), seed: int = 0) -> str:
    """Pretrain on the embedded images; compare with raw pixels and an untrained encoder.

    Example:
        kvicreg demo

    Args:
        out: run folder to write; a former demo there is replaced.
        seed: seed of the weights, the data order and the views.
    """
    from kvicreg.evaluation.evaluate import Options
    from kvicreg.evaluation.evaluate import evaluate as measure
    from kvicreg.report.page import write_report
    from kvicreg.training.demo import run

    folder = run(out=out, seed=seed)
    options = Options(seed=seed, robustness_images=200, map_images=600)
    measure(folder, options, command=f"kvicreg evaluate {folder}", say=lambda line: print(line, file=sys.stderr))
    page = write_report([folder])
    return f"Run folder: {folder} (encoder.safetensors, metrics.csv, demo.json). Open the page: {page}"


def train(argv: list[str]) -> str:
    """Pretrain an encoder without labels, and leave a run folder.

    Examples:
        kvicreg train --data mnist --kernel laplacian --epochs 20 --out runs/first
        kvicreg train --data photos/ --encoder resnet18 --image-size 64 --out runs/photos
        kvicreg train --config paper-cifar10-rq --epochs 100
        kvicreg train --resume runs/first
    """
    from dataclasses import asdict, replace

    from kvicreg.training.config import TrainConfig, TrainFlags, dump_config, load_config

    resume, recipe = value_of("--resume", argv), value_of("--config", argv)
    if resume is not None and len(argv) > (1 if f"--resume={resume}" in argv else 2):
        raise UsageError(
            "--resume continues a run as it was and takes no other flag; a new run can start from it: --init"
        )
    if resume is not None and not (Path(resume) / "config.yaml").is_file():
        raise FileNotFoundError(f"{resume} is not a run folder: it has no config.yaml to resume from")
    base = TrainConfig() if recipe is None else load_config(recipe)
    if resume is not None:
        base = replace(load_config(Path(resume) / "config.yaml"), out=resume)
    flags = parse(TrainFlags, "train", argv, doc=train.__doc__, default=TrainFlags(**asdict(base)))
    config = flags.settings
    if flags.dry_run:
        from kvicreg.training.estimate import estimate

        config, cost = estimate(config)
        print(dump_config(config), end="")
        return f"{cost} Nothing was written."
    from kvicreg.training.run import train as run

    folder = run(config, resume=resume is not None, overwrite=flags.overwrite)
    return f"Run folder: {folder} (encoder.safetensors, metrics.csv, checkpoints). Next: kvicreg evaluate {folder}"


def select(argv: list[str]) -> str:
    """Choose a kernel and weights without labels: train candidates a little, drop the poor ones, finish the best.

    Takes every flag of kvicreg train; what it says holds for all candidates. Any number of processes may work on one
    study: start it once, and join it with --resume from wherever its folder is seen.

    Examples:
        kvicreg select --data photos/ --budget 2000steps --out runs/choice
        kvicreg select --data mnist --time 30m --candidates rbf linear laplacian rbf+linear --out runs/choice
        kvicreg select --resume runs/choice
    """
    from kvicreg.selection.flags import SelectFlags

    resume = value_of("--resume", argv)
    if resume is not None and len(argv) > (1 if f"--resume={resume}" in argv else 2):
        raise UsageError("--resume continues a study as it was and takes no other flag")
    flags = parse(SelectFlags, "select", argv, doc=select.__doc__, default=SelectFlags())
    from kvicreg.selection.command import select as run

    if resume is not None:
        study, found = run(Path(resume))
    else:
        out = Path(flags.out or f"runs/{Path(flags.data).name or 'images'}-select")
        study, found = run(out, flags.shared, flags.choice)
    for row in found["ranking"]:
        score = f"{row['score']:.4g}" if row["error"] is None else f"failed: {row['error']}"
        print(f"{row['candidate']:<24} {row['steps']:>6} steps  {score}")
    print("\n".join(found["advice"]))
    if found["winner"] is None:
        raise ValueError(f"no candidate could be trained; their errors are in {study.folder / 'selection.json'}")
    winner = study.config_of(found["winner"]).folder
    after = f"kvicreg report {winner}" if study.full else f"kvicreg train --resume {winner}"
    return f"Ranking: {study.folder / 'selection.json'}, the winner's run: {winner}. Next: {after}"


def embed(
    run: Path,
    images: str,
    /,
    out: Path = Path("embeddings.npz"),
    split: str = "train",
    projector: bool = False,
    batch_size: int = 256,
    workers: int = 2,
    device: str = "auto",
) -> str:
    """Embed images with a trained encoder, to npz, parquet or csv.

    Example:
        kvicreg embed runs/first images/ --out embeddings.npz

    Args:
        run: run folder.
        images: folder of images, data set by name, or list file.
        out: file to write, ending in .npz, .parquet or .csv.
        split: split of the images, where they have splits.
        projector: the embeddings the loss saw, in place of the encoder's features.
        batch_size: images at a time.
        workers: processes that decode files.
        device: cpu, cuda, or auto.
    """
    from kvicreg.training.embed import embed as write

    count, width = write(
        run, images, out, split=split, projector=projector, batch_size=batch_size, workers=workers, device=device
    )
    return f"{count:,} embeddings of width {width}: {out}"


def evaluate(
    runs: list[Path],
    /,
    on: str | None = None,
    projector: bool = False,
    fine_tune: bool = False,
    supervised: bool = False,
    groups: str | None = None,
    robustness_images: int = 2000,
    map_images: int = 3000,
    seed: int = 0,
    batch_size: int = 256,
    device: str = "auto",
    workers: int = 0,
    data_root: str | None = None,
) -> str:
    """Measure what runs have learnt: probes, controls, robustness, diagnostics.

    Examples:
        kvicreg evaluate runs/first
        kvicreg evaluate runs/rbf runs/laplacian runs/vicreg
        kvicreg evaluate runs/cifar10 --on stl10

    Args:
        runs: run folders; of several a comparison is printed.
        on: other data than the run's own (transfer): a name or a folder; channels and sizes are adapted.
        projector: also evaluate the projector's output.
        fine_tune: also fine-tune the whole encoder with all labels, 10 epochs.
        supervised: also train the same architecture with labels from scratch, as many epochs as the run.
        groups: results by group: a text file with a name per test image, or FILE.csv:COLUMN.
        robustness_images: test images for the robustness curves; 0 for none.
        map_images: test images on the UMAP; 0 for none.
        seed: of probes, splits, intervals, the random encoder and the map.
        batch_size: images at a time.
        device: cpu, cuda, or auto.
        workers: processes that decode files.
        data_root: where data sets live.
    """
    import shlex

    from kvicreg.evaluation.compare import comparison_table
    from kvicreg.evaluation.evaluate import Options
    from kvicreg.evaluation.evaluate import evaluate as measure
    from kvicreg.evaluation.results import results_path

    if not runs:
        raise UsageError("evaluate needs at least one run folder, for example: kvicreg evaluate runs/first")
    options = Options(
        on=on, projector=projector, fine_tune=fine_tune, supervised=supervised, groups=groups,
        robustness_images=robustness_images, map_images=map_images, seed=seed, batch_size=batch_size, device=device,
        workers=workers, data_root=data_root,
    )  # fmt: skip
    for run in runs:
        command = shlex.join(["kvicreg", *asked])
        found = measure(run, options, command=command, say=lambda line: print(line, file=sys.stderr, flush=True))
        print(found["verdict"])
    print(comparison_table(runs, on=on))
    written = ", ".join(str(results_path(run, on)) for run in runs)
    return f"Results: {written}. Next: kvicreg report {' '.join(map(str, runs))}"


def report(runs: list[Path], /, out: Path | None = None) -> str:
    """Write one self-contained page about one run or several.

    Runs that were not evaluated yet are evaluated first. Figures for papers go to RUN/figures.

    Examples:
        kvicreg report runs/first
        kvicreg report runs/rbf runs/laplacian runs/vicreg --out comparison.html

    Args:
        runs: run folders.
        out: page to write; by default RUN/report.html, for several runs beside their folders.
    """
    from kvicreg.evaluation.compare import notes_against_best
    from kvicreg.report.figures import write_figures
    from kvicreg.report.page import write_report
    from kvicreg.selection.advice import advise_on_run

    if not runs:
        raise UsageError("report needs at least one run folder, for example: kvicreg report runs/first")
    for run in runs:
        if (run / "config.yaml").is_file() and not (run / "results.json").is_file():
            evaluate([run])
    page = write_report(runs, out, notes=notes_against_best(runs), advice=[advise_on_run(run) for run in runs])
    for run in runs:
        write_figures(run)
    return f"Page: {page} (figures in {', '.join(str(run / 'figures') for run in runs)})"


def replay(run: Path, /) -> str:
    """Repeat the batch that stopped a training, and tell where it went wrong.

    When a loss is not finite, training stops at that step and leaves RUN/fault.npz. From the last checkpoint on, the
    same steps are taken again, on one process and without changing the run.

    Example:
        kvicreg replay runs/first

    Args:
        run: run folder.
    """
    from kvicreg.training.replay import replay as repeat

    repeat(run)
    return f"What was found: {run / 'replay.json'}"


def export(
    run: Path, /, format: Literal["onnx", "torch"] = "onnx", out: Path | None = None, projector: bool = False
) -> str:
    """Write a run's encoder as ONNX or as a torch.export program, checked against it.

    Example:
        kvicreg export runs/first --format onnx --out encoder.onnx

    Args:
        run: run folder.
        format: onnx, or torch for a torch.export program.
        out: file to write; by default encoder.onnx or encoder.pt2 in the run folder.
        projector: include the projector.
    """
    from kvicreg.evaluation.export import export as write

    written = write(run, format, out, projector=projector)
    checked = f"at most {written.error:.0e} from the encoder's own output"
    return f"{written.path}: takes float images in [0, 1], any batch size; {checked}"


def data_list(root: Path | None = None) -> str:
    """List the data sets known by name.

    Example:
        kvicreg data list

    Args:
        root: where data sets live.
    """
    from kvicreg.data.commands import list_data

    return list_data(root)


def data_get(name: str, /, root: Path | None = None) -> str:
    """Fetch a data set, verify it and unpack it.

    Example:
        kvicreg data get mnist

    Args:
        name: of the data set.
        root: where data sets live.
    """
    from kvicreg.data.commands import get_data

    return get_data(name, root)


def data_show(
    source: str,
    /,
    out: Path = Path("contact-sheet.png"),
    split: str = "train",
    images: int = 16,
    image_size: int | None = None,
    seed: int = 0,
    root: Path | None = None,
    view: dict[str, float] = {},  # noqa: B006 - never changed
) -> str:
    """Draw images beside their two views, to see what the network sees.

    Example:
        kvicreg data show mnist-small --out sheet.png --view rotation 30

    Args:
        source: data set by name, folder of images, or list file.
        out: picture to write.
        split: train, test or unlabelled.
        images: how many.
        image_size: side of the images.
        seed: of the views.
        root: where data sets live.
        view: strengths changed on top of the preset's.
    """
    from kvicreg.data.commands import show_data

    return show_data(source, out, split, images, image_size, seed, root, view)


def bench_loss(
    out: Path = Path("bench-loss"),
    sizes: tuple[str, ...] = (),
    scaling_sizes: tuple[str, ...] = (),
    kernels: tuple[str, ...] = ("linear", "polynomial", "rbf", "laplacian", "rq", "laplacian-l1"),
    approximations: tuple[str, ...] = ("rff:512", "nystrom:512"),
    repeats: int = 7,
    device: str = "auto",
    threads: int | None = None,
) -> str:
    """Time the loss, and its memory, beside pytorch-metric-learning's VICReg.

    Examples:
        kvicreg bench loss
        kvicreg bench loss --sizes 256x2048 512x1024 --kernels rbf laplacian --scaling-sizes 4096x512 8192x512

    Args:
        out: folder to write: bench-loss.json, bench-loss.csv, latency and memory figures.
        sizes: BATCHxWIDTH for the exact kernels; a grid unless given.
        scaling_sizes: BATCHxWIDTH for RBF under the approximations; 2,048 to 65,536 unless given.
        kernels: linear, polynomial, rbf, laplacian, laplacian-l1, rq.
        approximations: rff:FEATURES and nystrom:LANDMARKS.
        repeats: timings of each.
        device: cpu, cuda, or auto.
        threads: of torch; all unless given.
    """
    from kvicreg.benchmarks.loss import EXACT_SIZES, SCALING_SIZES, run

    if sizes and not scaling_sizes:
        chosen: tuple[str, ...] = ()
    else:
        chosen = scaling_sizes or SCALING_SIZES
    run(out, sizes or (() if scaling_sizes else EXACT_SIZES), chosen, kernels, approximations, repeats, device, threads)
    return f"Timings and figures: {out}"


def bench_views(out: Path = Path("bench-views.json"), batch_size: int = 256, repeats: int = 7, threads: int = 1) -> str:
    """Time the random views beside kornia's.

    Example:
        kvicreg bench views --out bench-views.json

    Args:
        out: file to write.
        batch_size: images per batch.
        repeats: timings of each.
        threads: of torch.
    """
    from kvicreg.benchmarks.views import run

    run(out, batch_size, repeats, threads)
    return f"Timings: {out}"


def bench_train(out: Path = Path("bench-train.json"), batch_size: int = 256, steps: int = 20, threads: int = 1) -> str:
    """Time a training step beside the network alone, and beside a loop of kornia and VICReg.

    Example:
        kvicreg bench train --out bench-train.json

    Args:
        out: file to write.
        batch_size: images per batch.
        steps: timed steps of each.
        threads: of torch.
    """
    from kvicreg.benchmarks.train import run

    run(out, batch_size, steps, threads)
    return f"Timings: {out}"


# name -> function; a name of two words is a subcommand ("data list")
COMMANDS: dict[str, Callable[..., str | None]] = {
    "demo": demo,
    "train": train,
    "replay": replay,
    "select": select,
    "embed": embed,
    "evaluate": evaluate,
    "report": report,
    "export": export,
    "data list": data_list,
    "data get": data_get,
    "data show": data_show,
    "bench loss": bench_loss,
    "bench views": bench_views,
    "bench train": bench_train,
    **REPRODUCTIONS,
}

# --------------------------------------------------------------------------- parsing and errors


class UsageError(ValueError):
    """The command line can't be understood: exit code 2."""


def summary(command: Callable[..., str | None]) -> str:
    return (command.__doc__ or "").strip().splitlines()[0]


def overview(prefix: str = "") -> str:
    """The help page of `kvicreg`, or of a group of commands such as `data`."""
    names = [name for name in COMMANDS if name.startswith(f"{prefix} ".lstrip())]
    lines = [f"  {name:<{max(map(len, names))}}  {summary(COMMANDS[name])}" for name in names]
    example = f"kvicreg {names[0]} --help" if prefix else "kvicreg train --data mnist --kernel laplacian"
    return "\n".join(
        [
            f"usage: kvicreg {prefix + ' ' if prefix else ''}COMMAND [OPTIONS]",
            "",
            "Kernel VICReg: self-supervised learning in a reproducing kernel Hilbert space.",
            "",
            *lines,
            "",
            "Every command has --help with an example; kvicreg --version tells the version.",
            f"Example: {example}",
        ]
    )


def find(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Split the command line into a command's name and its arguments."""
    for words in (1, 2):
        name = " ".join(argv[:words])
        if name in COMMANDS:
            return name, list(argv[words:])
    groups = {name.split()[0] for name in COMMANDS if " " in name}
    if argv[0] in groups:
        known = [name.split()[1] for name in COMMANDS if name.startswith(f"{argv[0]} ")]
        said, where = (argv[1] if len(argv) > 1 else ""), f"kvicreg {argv[0]}"
    else:
        known, said, where = sorted(groups | set(COMMANDS)), argv[0], "kvicreg"
    near = difflib.get_close_matches(said, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
    raise UsageError(f"{where}: no command {said!r}; {hint}")


def parse(what: Any, name: str, argv: list[str], **options: Any) -> Any:
    """Read flags by the signature of a function (and call it) or by the fields of a dataclass (and make it)."""
    import tyro

    description = inspect.cleandoc(options.pop("doc", what.__doc__) or "").split("\nArgs:")[0]
    marks = (tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff)
    return tyro.cli(what, prog=f"kvicreg {name}", description=description, args=argv, config=marks, **options)


def value_of(flag: str, argv: Sequence[str]) -> str | None:
    """The value given to a flag on the command line, if it is there."""
    for here, following in zip(argv, [*argv[1:], None], strict=True):
        if here == flag:
            return following
        if here.startswith(f"{flag}="):
            return here.removeprefix(f"{flag}=")
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    asked[:] = argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if argv[0] in ("--version", "-V"):
        from kvicreg import __version__

        print(f"kvicreg {__version__}")
        return 0
    if len(argv) == 2 and argv[1] in ("-h", "--help") and any(c.startswith(f"{argv[0]} ") for c in COMMANDS):
        print(overview(argv[0]))
        return 0
    # Eigensolves run side by side, and a thread of OpenMP's that waits for work keeps a core from them: let it wait
    # for a fraction of a millisecond instead of several. Read when torch is loaded, which is later.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    name = "kvicreg"
    try:
        name, rest = find(argv)
        whole = name in ("train", "select")  # whose flags are those of a config
        last_line = COMMANDS[name](rest) if whole else parse(COMMANDS[name], name, rest)
        if last_line and os.environ.get("LOCAL_RANK", "0") == "0":  # processes beside the first keep quiet
            print(last_line)
        return 0
    except SystemExit as stop:  # tyro has already said what is wrong, or printed the help
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (head, less) has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - held until the interpreter exits
        return 0
    except Exception as error:
        if os.environ.get("KVICREG_DEBUG"):
            raise
        said = sentence(error)
        print(said if said.startswith("kvicreg") else f"kvicreg {name}: {said}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


UNEXPECTED = "this is a defect of kvicreg, please report it with what KVICREG_DEBUG=1 shows"


def sentence(error: Exception) -> str:
    """An error in words; what is nobody's mistake but ours says so."""
    said = str(error) if str(error) else type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    if isinstance(error, ValueError | TypeError | OSError | ImportError | MemoryError):
        return said
    if isinstance(error, RuntimeError) and ("allocate memory" in said or "out of memory" in said):
        return f"out of memory: {said.splitlines()[0]}"
    return f"{type(error).__name__}: {said.splitlines()[0]} ({UNEXPECTED})"


if __name__ == "__main__":
    sys.exit(main())
