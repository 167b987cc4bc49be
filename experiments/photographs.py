"""The plain command on a folder of photographs, as somebody new runs it: time, memory, and what was learnt."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.common.tables import markdown
from experiments.common.versions import fingerprint, remark
from kvicreg.benchmarks.measure import write_result
from kvicreg.runs import RunFolder, Settings
from kvicreg.runs.durations import minutes

OUT = Path("docs/results/bench-photographs.json")
Log = dict[str, Any]
SCORES = {"linear_probe": "linear probe", "knn": "20-NN", "labels_10_percent": "10 % of the labels"}


def photographs(photos: str, /, work: Path = Path("runs/photographs"), out: Path = OUT) -> str:
    """`kvicreg train --data PHOTOS` and nothing else, then VICReg at the same settings; both evaluated.

    Takes three quarters of an hour on two cores that do nothing else. What is finished is not run again.

    Example:
        python -m experiments photographs photos/

    Args:
        photos: folder with train/ and val/ or test/, and classes in them.
        work: folder of the runs and logs.
        out: file to write.
    """
    work.mkdir(parents=True, exist_ok=True)
    plain, vicreg = work / "plain", work / "vicreg"
    log = logged(work, "train", ["train", "--data", photos, "--out", plain])
    epochs = RunFolder(plain).settings.schedule.epochs
    judging = logged(work, "evaluate", ["evaluate", plain])
    logged(work, "vicreg", ["train", "--data", photos, "--method", "vicreg", "--epochs", epochs, "--out", vicreg])
    logged(work, "evaluate-vicreg", ["evaluate", vicreg])
    numbers = timings(log) | {"evaluate_minutes": round(judging["seconds"] / 60, 1)}
    numbers |= {"epochs": epochs, "images": results_of(plain)["data"]["train_images"]}
    numbers |= {"fingerprint": photographs_fingerprint()}
    encoders = {"kernel-vicreg, rbf": scores(plain, "encoder"), "vicreg": scores(vicreg, "encoder")}
    encoders |= {name: scores(plain, name) for name in ("random encoder", "raw pixels")}
    write_result(out, {"what": "kvicreg train --data PHOTOS, and nothing else"}, **numbers, encoders=encoders)
    return f"Results: {out}"


def photographs_fingerprint() -> str:
    """The loss of a step of each method and the probes, with the settings that photographs have by default."""
    settings = (Settings.of(data="photos", method=method) for method in ("kernel-vicreg", "vicreg"))
    rows = ({"method": each.method.name, "config": each.flat()} for each in settings)
    return " ".join(fingerprint(row, moved=False) for row in rows)


def logged(work: Path, name: str, arguments: Sequence[Any]) -> Log:
    """The lines of a command with the seconds at which they came, its time and its memory; from its file if done."""
    path = work / f"{name}.json"
    if not path.is_file():
        command = [sys.executable, "-m", "kvicreg", *map(str, arguments)]
        started, lines = time.monotonic(), []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append([round(time.monotonic() - started, 1), line.rstrip()])
        if process.returncode:
            raise ValueError(f"kvicreg {arguments[0]} ended with exit code {process.returncode}")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3  # of the largest process so far
        log = {"seconds": round(time.monotonic() - started, 1), "peak_mb": round(peak), "lines": lines}
        path.write_text(json.dumps(log, indent=1) + "\n")
    result: Log = json.loads(path.read_text())
    return result


def timings(log: Log) -> dict[str, Any]:
    """When the first word and the first step came, how long it was to take, and how long it took."""
    first_step = next(at for at, line in log["lines"] if line.startswith("step 1 of"))
    told = next(match[1] for _, line in log["lines"] if (match := re.match(r"Training takes about (\S+ \w+)", line)))
    number, unit = told.split()
    return {
        "first_word_seconds": log["lines"][0][0],
        "first_step_seconds": first_step,
        "told_minutes": round(minutes(number + unit[0]), 1),
        "real_minutes": round(log["seconds"] / 60, 1),
        "peak_mb": log["peak_mb"],
    }


def results_of(run: Path) -> dict[str, Any]:
    """What `kvicreg evaluate` has measured of a run."""
    results: dict[str, Any] = json.loads(RunFolder(run).results_path().read_text())
    return results


def scores(run: Path, subject: str) -> dict[str, list[float]]:
    """The scores of an encoder or a control in percent, each with its interval."""
    about = results_of(run)["subjects"][subject]
    return {
        name: [round(100 * about[name][key], 1) for key in ("value", "low", "high")] for name in SCORES if name in about
    }


def for_page(results: Path) -> str:
    """The part of docs/training.md."""
    path = results / OUT.name
    if not path.is_file():
        return "Not run yet: `python -m experiments photographs photos/`."
    n = json.loads(path.read_text())
    text = (
        f"`kvicreg train --data photos/` on {n['images']:,} photographs, two cores and no GPU: a first word after "
        f"{n['first_word_seconds']:g} s, the first step after {n['first_step_seconds']:g} s, {n['real_minutes']:g} "
        f"minutes for {n['epochs']} epochs ({n['told_minutes']:g} were told), {n['peak_mb'] / 1e3:.1f} GB of memory at "
        f"most in a process; `evaluate` took {n['evaluate_minutes']:g} minutes. On the test images, in percent:"
    )
    lines = [
        [name, *("{} ({} to {})".format(*row[score]) if score in row else "-" for score in SCORES)]
        for name, row in n["encoders"].items()
    ]
    note = "One seed, 95 % intervals over test images; VICReg at its published weights and the same settings."
    command = "`python -m experiments photographs photos/`"
    return f"{text}\n\n{markdown(['', *SCORES.values()], lines)}\n\n{note} {command}{remark(path)}"


COMMANDS = {"photographs": photographs}
