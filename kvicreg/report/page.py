"""The report: one file with everything in it, safe to open and to pass on.

Everything that came from a run (names, classes, settings) is escaped by the template or set as text by the scripts;
the content-security policy allows the page's own style and script by their hashes, and no network at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.report import tables
from kvicreg.report.choice import choices
from kvicreg.report.read import RunRecord, explaining_damage, read_run
from kvicreg.runs import RunFolder
from kvicreg.runs.results import MEASURES, short_names
from kvicreg.storage import write_atomically

SECTIONS = {
    "comparison": "Comparison",
    "map": "Map",
    "training": "Training",
    "spectrum": "Spectrum",
    "robustness": "Robustness",
    "confusion": "Confusion",
    "groups": "Groups",
    "diagnostics": "Features",
    "choice": "Choice",
    "again": "Run it again",
}
FRAMES = 60  # spectra that the slider shows


def write_report(
    paths: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    notes: Sequence[str] | None = None,
    advice: Sequence[list[str]] | None = None,
) -> Path:
    """Write the page of one or several runs; by default into the run's folder, for several beside the first one's.

    Args:
        paths: run folders.
        out: the file to write.
        notes: for several runs, how each compares with the best, in words.
        advice: sentences about each run's choice of a kernel.
    """
    if not paths:
        raise ValueError("give at least one run folder")
    runs = [read_run(path, name) for path, name in zip(paths, short_names(paths), strict=True)]
    if out is None:
        page = RunFolder(paths[0]).page
        out = page if len(runs) == 1 else Path(paths[0]).parent / page.name
    out, names = Path(out), [run.name for run in runs]
    note_of = dict(zip(names, notes or [""] * len(runs), strict=True))
    advice_on = dict(zip(names, advice or [[] for _ in runs], strict=True))
    with explaining_damage(", ".join(names)):
        text = render(runs, note_of, advice_on)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode())
    return out


def render(runs: list[RunRecord], notes: dict[str, str], advice: dict[str, list[str]] | None = None) -> str:
    """The page as text; `notes` and `advice` by run name."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError(f"the report needs {error.name}: pip install 'kvicreg[eval]'") from error
    from kvicreg import __version__

    style = _asset("style.css")
    script = "(() => {\n" + "\n".join(_asset(f"{part}.js") for part in ("charts", "map", "page")) + "\n})();\n"
    content = _content(runs, notes, advice or {})
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_asset("template.html"))
    return template.render(
        **content,
        title=" · ".join(run.name for run in runs),
        verdict=_verdict(runs, notes),
        tiles=_tiles(runs),
        sections=_sections(content),
        warnings=[(run.name, run.warnings[-3:]) for run in runs if run.warnings],
        style=Markup(style),
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script),
        data=Markup(_embedded(payload(runs))),
        version=__version__,
    )


def _content(runs: list[RunRecord], notes: dict[str, str], advice: dict[str, list[str]]) -> dict[str, Any]:
    """The tables of the page, and which figures have something to show."""
    return {
        "table": tables.comparison(runs, notes),
        "transfers": tables.transfers(runs),
        "confusions": tables.confusions(runs),
        "groups": tables.groups(runs),
        "diagnostics": tables.diagnostics(runs),
        "choices": choices(runs, advice),
        "again": tables.again(runs),
        "has": _present(runs),
    }


def _sections(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Key and title of each section that has something to show."""
    shown = {
        "comparison": content["table"],
        "confusion": content["confusions"],
        "groups": content["groups"],
        "diagnostics": content["diagnostics"],
        "choice": content["choices"],
        "again": True,
        **content["has"],
    }
    return [(key, title) for key, title in SECTIONS.items() if shown.get(key)]


def payload(runs: list[RunRecord]) -> dict[str, Any]:
    """What the scripts draw: metrics, spectra, maps and curves per run, and the pictures the maps share."""
    pictures: dict[str, Any] = {}
    entries = []
    for run in runs:
        entry: dict[str, Any] = {"name": run.name, "metrics": run.metrics}
        if run.epochs is not None and run.eigenvalues is not None:
            frames = np.unique(np.linspace(0, len(run.epochs) - 1, min(FRAMES, len(run.epochs))).round().astype(int))
            values = [[_short(value) for value in row[:256]] for row in run.eigenvalues[frames]]
            entry["spectrum"] = {"epochs": run.epochs[frames].tolist(), "values": values}
        if run.results and "robustness" in run.results:
            entry["robustness"] = run.results["robustness"]["curves"]
        if run.map is not None:
            key = str(run.map.get("fingerprint", run.name))
            entry["map"] = {
                "pictures": key,
                "points": _unit_square(run.map["points"]),
                "neighbours": run.map["neighbours"].ravel().tolist(),
                "k": int(run.map["neighbours"].shape[1]),
            }
            pictures.setdefault(key, _pictures(run))
        entries.append(entry)
    return {"runs": entries, "pictures": pictures}


def _pictures(run: RunRecord) -> dict[str, Any]:
    """The sheet of thumbnails as a data address, with their labels, numbers and neighbours by raw pixels."""
    from PIL import Image

    assert run.map is not None
    images = run.map["thumbnails"]
    count, height, width, channels = images.shape
    columns = math.ceil(math.sqrt(count))
    sheet = np.zeros((math.ceil(count / columns) * height, columns * width, channels), dtype=np.uint8)
    for k in range(count):
        row, column = divmod(k, columns)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = images[k]
    file = BytesIO()
    Image.fromarray(sheet[..., 0] if channels == 1 else sheet).save(file, "WEBP", quality=82, method=4)
    classes = (run.results or {}).get("data", {}).get("classes") or []
    return {
        "sheet": "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode(),
        "columns": columns,
        "labels": run.map["labels"].tolist(),
        "classes": classes,
        "indices": run.map["indices"].tolist() if "indices" in run.map else list(range(count)),
        "pixelNeighbours": run.map["pixel_neighbours"].ravel().tolist(),
        "k": int(run.map["pixel_neighbours"].shape[1]),
    }


def _present(runs: list[RunRecord]) -> dict[str, Any]:
    """Which sections have something to show."""
    curves = [run.results["robustness"]["images"] for run in runs if run.results and "robustness" in run.results]
    maps = sum(run.map is not None for run in runs)
    return {
        "map": maps > 0,
        "maps": maps,
        "classes": any(run.map is not None and bool((run.map["labels"] >= 0).any()) for run in runs),
        "training": any(run.metrics for run in runs),
        "spectrum": any(run.eigenvalues is not None for run in runs),
        "robustness": f"{curves[0]:,}" if curves else None,
    }


def _verdict(runs: list[RunRecord], notes: dict[str, str]) -> str:
    """One run's own verdict; for several, who is best, by how much, and the best one's own."""
    evaluated = [run for run in runs if run.results and "linear_probe" in run.results["subjects"]["encoder"]]
    if len(runs) == 1 or not evaluated:
        first = runs[0].results
        missing = "Not evaluated yet: kvicreg evaluate measures what the encoder has learnt."
        return str(first["verdict"]) if first else missing
    values = {run.name: run.results["subjects"]["encoder"]["linear_probe"]["value"] for run in evaluated if run.results}
    best = max(evaluated, key=lambda run: values[run.name])
    assert best.results is not None
    others = [f"{name} {note}" for name, note in notes.items() if note and name != best.name]
    comparison = f" Against it: {'; '.join(others)}." if others else ""
    return f"Of {len(runs)} runs, {best.name} has the best linear probe.{comparison} {best.results['verdict']}"


def _tiles(runs: list[RunRecord]) -> list[dict[str, str]]:
    """The key figures of a single run."""
    results = runs[0].results
    if len(runs) > 1 or results is None:
        return []
    tiles = []
    for key in ("linear_probe", "knn", "labels_1_percent"):
        entry = results["subjects"]["encoder"].get(key)
        if entry:
            note = f"{100 * entry['low']:.1f} to {100 * entry['high']:.1f}"
            tiles.append({"name": MEASURES[key].heading, "value": f"{100 * entry['value']:.1f} %", "note": note})
    diagnostics = results["diagnostics"]
    rank = {"name": "effective rank", "value": f"{diagnostics['effective_rank']:.1f}"}
    tiles.append(rank | {"note": f"of {diagnostics['effective_rank_bound']}"})
    if runs[0].metrics:
        tiles.append({"name": "epochs", "value": str(len(runs[0].metrics["epoch"])), "note": runs[0].method})
    return tiles


def _unit_square(points: np.ndarray) -> list[int]:
    """Points (n, 2) as whole numbers 0..1000, x0 y0 x1 y1 ..., the aspect kept."""
    low, high = points.min(0), points.max(0)
    span = float((high - low).max()) or 1.0
    centred = (points - (low + high) / 2) / span + 0.5
    return [int(value) for value in (1000 * centred).round().ravel()]


def _short(value: float) -> float:
    return float(f"{max(float(value), 0.0):.4g}")


def _embedded(content: dict[str, Any]) -> str:
    """JSON that no browser can take for the end of its script element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return resources.files("kvicreg.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
