"""kvicreg evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from kvicreg.cli.errors import UsageError, command_line
from kvicreg.data.sources import ReadOptions


def evaluate(
    runs: list[Path],
    /,
    on: str | None = None,
    projector: bool = False,
    fine_tune: bool = False,
    supervised: bool = False,
    groups: str | None = None,
    robustness_images: int | None = None,
    map_images: int = 3000,
    seed: int = 0,
    batch_size: int = 256,
    device: str = "auto",
    workers: int = 0,
    data_root: str | None = None,
    reading: Annotated[ReadOptions, tyro.conf.arg(name="")] = ReadOptions(),
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
        robustness_images: test images for the robustness curves, by default 200 to 2000; 0 for none.
        map_images: test images on the UMAP; 0 for none.
        seed: of probes, splits, intervals, the random encoder and the map.
        batch_size: images at a time.
        device: cpu, cuda, or auto.
        workers: processes that decode files.
        data_root: where data sets live.
        reading: how the images of --on are read; by default as in training.
    """
    import shlex

    from kvicreg.evaluation.compare import comparison_table
    from kvicreg.evaluation.evaluate import Options
    from kvicreg.evaluation.evaluate import evaluate as measure
    from kvicreg.evaluation.progress import on_screen
    from kvicreg.evaluation.session import Shared
    from kvicreg.runs import RunFolder

    if not runs:
        raise UsageError("evaluate needs at least one run folder, for example: kvicreg evaluate runs/first")
    for run in runs:
        RunFolder.open(run)  # all of them, before the first is measured
    options = Options(
        on=on, projector=projector, fine_tune=fine_tune, supervised=supervised, groups=groups,
        robustness_images=robustness_images, map_images=map_images, seed=seed, batch_size=batch_size, device=device,
        workers=workers, data_root=data_root, reading=reading,
    )  # fmt: skip
    command, shared = shlex.join(["kvicreg", *command_line]), Shared()
    with on_screen(len(runs)) as progress:
        results = [measure(run, options, command=command, progress=progress, shared=shared) for run in runs]
    print("\n".join(result["verdict"] for result in results))
    print(comparison_table(runs, on=on))
    written = ", ".join(str(RunFolder(run).results_path(on)) for run in runs)
    return f"Results: {written}. Next: kvicreg report {' '.join(map(str, runs))}"
