"""`python -m experiments NAME`: run an experiment; `list` names them all, `page` writes what the documents show."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # before torch is loaded; see kvicreg.cli

import tyro

from experiments import explore, explore_speed, photographs
from experiments.common.experiment import load_all
from experiments.common.job import Job
from kvicreg.options import did_you_mean


def listing() -> str:
    """Name every experiment."""
    summaries = {name: experiment.summary() for name, experiment in load_all().items()}
    summaries |= {name: (inspect.getdoc(command) or "").split("\n")[0] for name, command in COMMANDS.items()}
    return "\n".join(f"{name:<20} {summary}" for name, summary in summaries.items())


def every(job: Job) -> str:
    """Every experiment, in the order in which they use each other's results."""
    for number, (name, kind) in enumerate(load_all().items(), 1):
        job.say(f"--- {number}/{len(load_all())} {name}")
        kind(**kind.few if job.budget == "smoke" else {}).run(job)
    return f"Results: {job.out}"


def page(docs: Path = Path("docs")) -> str:
    """Write docs/results.md, and the measured parts of other pages, from the files in docs/results."""
    from experiments.common.page import write_pages

    return f"Pages: {', '.join(map(str, write_pages(docs)))}"


def check(docs: Path = Path("docs")) -> str:
    """Tell which committed results are older than a change of the code that moves their numbers."""
    from experiments.common.versions import result_files, statuses

    lines = []
    for path in result_files(docs / "results"):
        count = statuses(path)
        parts = [f"{count[name]} {name}" for name in ("current", "stale", "unknown version") if count[name]]
        lines.append(f"{path.relative_to(docs)}: {', '.join(parts)}")
    return "\n".join(lines)


COMMANDS: dict[str, Any] = {
    "all": every, "list": listing, "page": page, "check": check, **explore.COMMANDS, **explore_speed.COMMANDS,
    **photographs.COMMANDS,
}  # fmt: skip


def parse(name: str, arguments: Sequence[str]) -> Any:
    """Read flags by the fields of the job and of the experiment, and run it."""
    marks = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
    about: dict[str, Any] = {"prog": f"python -m experiments {name}", "args": [*arguments], "config": marks}
    if name in COMMANDS:
        return tyro.cli(
            COMMANDS[name], description=(inspect.getdoc(COMMANDS[name]) or "").split("\n\nArgs:")[0], **about
        )
    kind = load_all()[name]

    def run(job: Job, experiment: Any) -> str:
        return f"Results: {experiment.run(job).job.out / experiment.stem}.*"

    run.__annotations__ = {"job": Job, "experiment": kind}
    return tyro.cli(run, description=inspect.getdoc(kind), **about)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit code."""
    name, *rest = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(f"usage: python -m experiments NAME [OPTIONS]\n\n{listing()}\n\nEach has --help.")
        return 0
    name = name.replace("_", "-")
    if name not in {**load_all(), **COMMANDS}:
        print(f"there is no experiment {name!r}; {did_you_mean(name, [*load_all(), *COMMANDS])}", file=sys.stderr)
        return 2
    try:
        print(parse(name, rest))
        return 0
    except SystemExit as stop:  # tyro has said what is wrong, or printed the help
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError) as error:
        if os.environ.get("KVICREG_DEBUG"):
            raise
        print(f"{name}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
