"""The pages that are written from result files: docs/results.md, and the measured parts of others between marks."""

from __future__ import annotations

from pathlib import Path

from experiments.common import tables
from experiments.common.experiment import load_all
from kvicreg.storage import write_atomically

OPENING = """# Results

Every number here is from a file in [results](results) that a command of this repository wrote; this page is written by
`python -m experiments page`. A file's JSON holds the settings of the run behind each number: those that all rows share
under `shared`, the others beside the row.

    python -m experiments all --budget smoke                      # everything in small, on made-up images
    python -m experiments table2 --part 1/2 --out docs/results    # one table; half of its runs
    python -m experiments defaults-vs-vicreg --out docs/results

Budgets: *smoke* tries the commands in a minute, *small* is two cores and some hours, *full* is the paper's setting by
the shipped recipes, for GPUs. Each number is of a run folder like any other; finished runs are skipped, those cut short
are resumed, and machines that share the folder share the work with `--part`. Runs that a table in `--out` already has
are not made again, so that a table can be continued from its file alone. *small* and *full* train in bfloat16 where the
hardware has it, else in float32; the column `precision` tells. Each row has a fingerprint of the code that it rests on:
a step of its training in miniature, and the probes. `python -m experiments check`, which is part of `make check`, tells
which rows are older than a change that moves numbers, and so does this page.

Elsewhere: [the study of the settings](parametrization.md), [choosing without labels](selection.md),
[groups](fairness.md), [what the loss costs](scaling.md), [reliability](reliability.md).
"""


def results_page(results: Path) -> str:
    """The page: a section for every result file that is there; links are relative to docs/."""
    parts = [OPENING]
    for name, experiment in load_all().items():
        for title, sentence, stems, command in experiment.sections:
            paths = sorted(results.glob(f"{stems or name}.json"))
            late = "" if paths else f" Not run yet: `python -m experiments {command or name}`."
            parts += [
                f"## {title}\n",
                f"{sentence}{late}\n",
                *(tables.on_page(path, named="*" in stems) for path in paths),
            ]
    return "\n".join(parts)


def fill(page: Path, name: str, text: str) -> None:
    """Put `text` between the marks of that name on a page."""
    before, _, after = _split(page, name)
    write_atomically(page, f"{before}\n\n{text.strip()}\n\n{after}".encode())


def part_of(page: Path, name: str) -> str:
    """What stands between the marks of that name."""
    return _split(page, name)[1].strip()


def _split(page: Path, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name}: written by python -m experiments page -->", f"<!-- end of {name} -->"
    before, begun, rest = page.read_text(encoding="utf-8").partition(begin)
    between, ended, after = rest.partition(end)
    if not (begun and ended):
        raise ValueError(f"{page} has no place for {name}: the lines {begin} and {end}")
    return before + begin, between, end + after


def write_pages(docs: Path) -> list[Path]:
    """Write results.md, and the measured parts of other pages, into the folder of documents."""
    results = docs / "results"
    if not results.is_dir():
        raise FileNotFoundError(f"{results} is not there: results are written into it with --out {results}")
    write_atomically(docs / "results.md", results_page(results).encode())
    pages = [docs / "results.md"]
    for name, experiment in load_all().items():
        if experiment.page and (page := docs / experiment.page).is_file():
            fill(page, name, experiment.for_page(results))
            pages.append(page)
    return pages
