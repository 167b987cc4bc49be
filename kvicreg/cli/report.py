"""kvicreg report."""

from __future__ import annotations

from pathlib import Path

from kvicreg.cli.errors import UsageError
from kvicreg.cli.evaluate import evaluate


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
    from kvicreg.runs import RunFolder
    from kvicreg.selection.advice import advise_on_run

    if not runs:
        raise UsageError("report needs at least one run folder, for example: kvicreg report runs/first")
    for run in runs:
        folder = RunFolder(run)
        if folder.exists and not folder.results_path().is_file():
            evaluate([run])
    page = write_report(runs, out, notes=notes_against_best(runs), advice=[advise_on_run(run) for run in runs])
    for run in runs:
        write_figures(run)
    return f"Page: {page} (figures in {', '.join(str(RunFolder(run).figures) for run in runs)})"
