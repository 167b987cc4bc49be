"""Bad input: damaged and made-up files and flags, each through the command line, each answered with a sentence.

A case is a function of (seed, number): it writes files that are wrong in some way and gives a command line. Right is
exit code 0, 1 or 2, no traceback, no "this is a defect" sentence, no hang, and no more memory than a limit. Cases run
in a forked process that is replaced when one of them takes it down, so that a crash or a hang is a result as well.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvicreg.cli import main
from kvicreg.report import figures
from tests.reliability import inputs

DEFECT = "this is a defect of kvicreg"
SECONDS = 60  # of a core for one case, or twenty times that of waiting; the slowest takes two
MEGABYTES = 1500  # that a case may add: the largest image allowed decodes to 200 MB, and is copied a few times


def one(make: Callable[[random.Random, Path, Path], list[str]], chance: random.Random, base: Path) -> str | None:
    """Run one case in a folder of its own; what is wrong with the answer, or None."""
    folder = Path(tempfile.mkdtemp(dir=base.parent))
    here, output = os.getcwd(), io.StringIO()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        os.chdir(folder)
        argv = make(chance, folder, base)
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main(argv)
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"[:300]
    finally:
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)
    text = output.getvalue()
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in text or DEFECT in text:
        return text.strip().splitlines()[-1][:300]
    if code and not text.strip():
        return f"exit code {code} without a word"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return f"{grown:.0f} MB more memory" if grown > MEGABYTES else None


def _child(out: int, numbers: list[int], seed: int, base: Path) -> None:
    """Runs the cases in turn and tells the parent of each, in a line."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    draw = figures.write_figures
    for number in numbers:
        kind = list(inputs.KINDS)[number % len(inputs.KINDS)]
        os.write(out, f"{json.dumps({'start': number})}\n".encode())
        start = time.process_time()
        figures.write_figures = draw if number % 160 == 3 else lambda _: []  # they take most of a report's time
        wrong = one(inputs.KINDS[kind], random.Random(f"{seed}/{number}"), base)
        line = {"end": number, "kind": kind, "wrong": wrong, "seconds": time.process_time() - start}
        os.write(out, f"{json.dumps(line)}\n".encode())
    os._exit(0)


def run(count: int, seed: int) -> dict[str, Any]:
    """`count` cases; the result file's content."""
    tried: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        base = Path(work) / "base"
        inputs.prepare(base)
        todo, printed = list(range(count)), 0
        while todo:
            reader, writer = os.pipe()
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                _child(writer, todo[:200], seed, base)
            os.close(writer)
            done, current, why = _listen(reader, pid)
            os.close(reader)
            for line in done:
                tried[line["kind"]] += 1
                spent[line["kind"]] += line["seconds"]
                if line["wrong"]:
                    failures.append({"case": line["end"], "kind": line["kind"], "wrong": line["wrong"]})
            finished = {line["end"] for line in done}
            if why and current is not None and current not in finished:
                kind = list(inputs.KINDS)[current % len(inputs.KINDS)]
                tried[kind] += 1
                failures.append({"case": current, "kind": kind, "wrong": why})
                finished.add(current)
            todo = [number for number in todo if number not in finished]
            print(f"fuzz: {count - len(todo):,} of {count:,} cases, {len(failures)} failures", file=sys.stderr)
            print("\n".join(map(str, failures[printed:])), file=sys.stderr, flush=True)
            printed = len(failures)
    return {
        "cases": sum(tried.values()),
        "failures": len(failures),
        "by": dict(tried),
        "core_seconds": {kind: round(seconds, 1) for kind, seconds in spent.items()},
        "failed": failures[:50],
    }


def _listen(reader: int, pid: int) -> tuple[list[dict[str, Any]], int | None, str | None]:
    """What a child tells until it ends; the case it was at, and why it ended if that was not its own doing."""
    done: list[dict[str, Any]] = []
    current, text, last, spent = None, b"", time.monotonic(), 0.0
    why: str | None = None
    while True:
        ready, _, _ = select.select([reader], [], [], 1.0)
        if ready:
            block = os.read(reader, 1 << 16)
            if not block:
                break
            text, last, spent = text + block, time.monotonic(), _core_seconds(pid)
            *lines, text = text.split(b"\n")
            for line in map(json.loads, lines):
                current = line.get("start", current)
                if "end" in line:
                    done.append(line)
        elif _core_seconds(pid) - spent > SECONDS or time.monotonic() - last > 20 * SECONDS:
            why = f"no answer for {SECONDS} seconds"
            os.kill(pid, signal.SIGKILL)
            break
    _, status = os.waitpid(pid, 0)
    if why is None and status:
        why = f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"ended with {status}"
    return done, current, why


def _core_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
