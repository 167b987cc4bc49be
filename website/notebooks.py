"""Notebooks: scripts in examples/notebooks, cut into cells by "# %%", run and shown on the site with what they print.

python -m website.notebooks            # runs all of them, and writes docs/notebooks
python -m website.notebooks spectrum   # one

Editors and Jupyter (by jupytext) open the scripts as notebooks; the site offers them as .ipynb as well.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["Cell", "cells", "ipynb", "page", "run"]

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))
PAGES = ROOT / "docs" / "notebooks"
Cell = tuple[str, str]
"""Either "markdown" or "code", and the text."""


def cells(script: str) -> list[Cell]:
    """The cells of a script."""
    parts = re.split(r"^# %%( \[markdown\])?\n", script, flags=re.MULTILINE)[1:]
    texts = zip(parts[::2], parts[1::2], strict=True)
    return [("markdown", re.sub(r"^# ?", "", b, flags=re.M)) if a else ("code", b) for a, b in texts]


def run(script: Path, pictures: Path) -> list[str]:
    """Run a script in a folder of its own; what each cell leaves, as Markdown. Pictures go into the folder given."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    shown: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for kind, text in cells(script.read_text(encoding="utf-8")):
            if kind == "code":
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(text, str(script), "exec"), names)
                shown.append(
                    "\n\n".join([*_printed(printed.getvalue()), *_pictures(pictures, script.stem, len(shown))])
                )
    return shown


def _printed(text: str) -> list[str]:
    lines = [line.split("\r")[-1] for line in re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text).strip().splitlines()]
    return [f"```text\n{chr(10).join(lines)}\n```"] if lines else []


def _pictures(folder: Path, name: str, cell: int) -> list[str]:
    import matplotlib.pyplot as plt

    paths = []
    for number in plt.get_fignums():
        paths.append(f"{name}-{cell}{'' if number == 1 else f'-{number}'}.png")
        plt.figure(number).savefig(folder / paths[-1], dpi=90, bbox_inches="tight")
    plt.close("all")
    return [f"![What the cell draws]({path})" for path in paths]


def page(script: Path, shown: list[str]) -> str:
    """The page of a notebook: its cells, and what each has left."""
    outputs = iter(shown)
    parts = [
        text.strip() if kind == "markdown" else f"```python\n{text.strip()}\n```\n\n{next(outputs)}".strip()
        for kind, text in cells(script.read_text(encoding="utf-8"))
    ]
    title, *rest = parts[0].split("\n", 1)
    link = f"[Download as a notebook]({script.stem}.ipynb)"
    return "\n\n".join([title, *(text.strip() for text in rest), *parts[1:], link]) + "\n"


def ipynb(script: str) -> str:
    """A script as a Jupyter notebook without outputs."""
    empty: dict[str, dict[str, Any]] = {"code": {"outputs": [], "execution_count": None}, "markdown": {}}
    content = [
        {"cell_type": kind, "metadata": {}, "source": text.strip(), **empty[kind]} for kind, text in cells(script)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": content, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}, indent=1)


def main(names: list[str]) -> None:
    PAGES.mkdir(exist_ok=True)
    for script in (script for script in SCRIPTS if not names or script.stem in names):
        start = time.perf_counter()
        text = page(script, run(script, PAGES))
        (PAGES / f"{script.stem}.md").write_text(text, encoding="utf-8")
        print(f"{PAGES / script.stem}.md: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
