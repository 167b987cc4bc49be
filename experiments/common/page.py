"""The pages that are written from result files: docs/results.md, and the measured parts of others between marks."""

from __future__ import annotations

import re
from pathlib import Path

from experiments.common import tables
from experiments.common.experiment import load_all
from experiments.explore_page import measured_part
from experiments.neighbours import parts_of_pages
from experiments.photographs import for_page
from kvicreg.storage import write_atomically

TEMPLATE = Path(__file__).parents[1] / "results.md"
"""The results page; {STEM} or {PATTERN: COMMAND} stands for result files and, where there are none, what makes them."""


def results_page(results: Path) -> str:
    """The page with every result file that is there; links are relative to docs/."""

    def filled(mark: re.Match[str]) -> str:
        pattern, command = mark[1], mark[2] or mark[1]
        paths = sorted(results.glob(f"{pattern}.json"))
        shown = ("\n\n" + tables.on_page(path, named="*" in pattern).removesuffix("\n") for path in paths)
        return "".join(shown) or f" Not run yet: `python -m experiments {command}`."

    return re.sub(r"\{([^}:]+)(?:: ([^}]+))?\}", filled, TEMPLATE.read_text(encoding="utf-8"))


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
    parts = {name: kind for name, kind in load_all().items() if kind.page and (docs / kind.page).is_file()}
    for name, kind in parts.items():
        fill(docs / kind.page, name, kind.for_page(results))
    pages = [docs / "results.md", *(docs / kind.page for kind in parts.values())]
    others = [("explore.md", "explore", measured_part(results)), ("training.md", "photographs", for_page(results))]
    for page, name, text in [*others, *parts_of_pages(results)]:
        if (docs / page).is_file():
            fill(docs / page, name, text)
            pages.append(docs / page)
    return pages
