"""kvicreg evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from kvicreg.cli.errors import UsageError, command_line
from kvicreg.evaluation.options import EvaluationOptions
from kvicreg.storage import counted, quoted


def evaluate(
    runs: list[Path],
    /,
    out: Path | None = None,
    options: Annotated[tyro.conf.OmitArgPrefixes[EvaluationOptions], tyro.conf.arg(name="")] = EvaluationOptions(),
) -> str:
    """Measure what runs have learnt: probes, controls, robustness, diagnostics.

    Examples:
        kvicreg evaluate runs/first
        kvicreg evaluate runs/rbf runs/laplacian runs/vicreg
        kvicreg evaluate runs/cifar10 --on stl10
        kvicreg evaluate zoo:mnist --on mnist-small --out runs/zoo-mnist

    Args:
        runs: run folders; of several a comparison is printed.
        out: run folder to make of zoo:NAME, an encoder that comes with the package, for its results.
        options: what to evaluate.
    """
    import shlex

    from kvicreg.evaluation.compare import comparison_table
    from kvicreg.evaluation.evaluate import evaluate as measure
    from kvicreg.evaluation.progress import on_screen
    from kvicreg.evaluation.session import Session, Shared
    from kvicreg.runs import RunFolder
    from kvicreg.runs.zoo import check_place, copied, is_of_zoo, located

    if not runs:
        raise UsageError("evaluate needs at least one run folder, for example: kvicreg evaluate runs/first")
    command, shared = shlex.join(["kvicreg", *command_line]), Shared()
    if out is not None:
        of_zoo = [run for run in runs if is_of_zoo(run)]
        if len(of_zoo) != 1:
            raise UsageError("out: the results of a run go into its folder; expected one zoo:NAME for --out")
        check_place(of_zoo[0], out)
        # reads the images: without them no folder is made
        Session(RunFolder(located(of_zoo[0])), options, shared=shared)
        runs = [copied(run, out) if is_of_zoo(run) else run for run in runs]
    for run in runs:
        RunFolder.open(run)  # all of them, before the first is measured
    with on_screen(len(runs)) as progress:
        results = [measure(run, options, command=command, progress=progress, shared=shared) for run in runs]
    notes = dict.fromkeys(note for result in results for note in _notes(result["data"]))
    print("\n".join([*notes, *(result["verdict"] for result in results)]))
    print(comparison_table(runs, on=options.on))
    written = ", ".join(str(RunFolder(run).results_path(options.on)) for run in runs)
    page = (
        "" if options.on else f" Next: kvicreg report {' '.join(map(quoted, runs))}"
    )  # which shows the run's own data
    return f"Results: {written}.{page}"


def _notes(data: dict[str, Any]) -> list[str]:
    """What is to be told of the images of an evaluation."""
    from kvicreg.evaluation.data import AS_THEY_ARE

    notes = [] if data["adaptation"] == AS_THEY_ARE else [f"Images of {data['name']}: {data['adaptation']}."]
    if data["unreadable_files"]:
        files = counted(data["unreadable_files"], "file")
        notes.append(f"{files} of {data['name']} could not be read; other images stand in.")
    return notes
