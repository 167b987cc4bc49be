"""Faults: kill -9 at random moments, a full disk, a read-only folder; then everything is taken up again.

After each: no file under its final name is half a file, the last checkpoint loads, and the work, taken up again, ends
in what the uninterrupted work ends in.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.reliability import inputs
from tests.reliability.operations import OPERATIONS, Operation, half_written, in_child, served_data, wait


class Reference:
    """What each operation gives when nobody disturbs it, and how long that takes."""

    def __init__(self, work: Path) -> None:
        self.work, self.base = work, work / "base"
        devnull = os.open(os.devnull, os.O_WRONLY)
        streams = os.dup(1), os.dup(2)
        os.dup2(devnull, 1), os.dup2(devnull, 2)
        try:  # in a child, so that this process has run nothing when it forks
            pid = os.fork()
            if pid == 0:
                inputs.prepare(self.base)
                os._exit(0)
            assert wait(pid) == 0
        finally:
            os.dup2(streams[0], 1), os.dup2(streams[1], 2)
        self.seconds: dict[str, float] = {}

    def of(self, name: str) -> Path:
        folder = self.work / f"reference-{name.replace(' ', '-')}"  # no space, which commands would quote, as elsewhere
        if not folder.exists():
            folder.mkdir()
            argv, start = OPERATIONS[name].start(folder, self.base), time.monotonic()
            code = wait(in_child(argv, self.work / "log"))
            assert code == 0, (self.work / "log").read_text()
            self.seconds[name] = time.monotonic() - start
        return folder


def one_kill(name: str, chance: random.Random, reference: Reference) -> tuple[int, str | None]:
    """Kill an operation once to three times, then take it up; how many kills hit it, and what went wrong."""
    operation, expected = OPERATIONS[name], reference.of(name)
    folder = Path(tempfile.mkdtemp(dir=reference.work))
    log, hits = folder.with_suffix(".log"), 0
    try:
        for attempt in range(min(operation.kills, chance.choice((1, 1, 2, 3)))):
            make = operation.again if attempt else operation.start
            pid = in_child(make(folder, reference.base), log)
            _wait_for_the_moment(operation, folder, chance, reference.seconds[name])
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                if code:
                    return hits, f"failed by itself with {code}: {log.read_text()[-300:]}"
                break  # it was faster: nothing to kill
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            hits += 1
            if broken := half_written(folder):
                return hits, f"half a file: {broken}"
        code = wait(in_child(operation.again(folder, reference.base), log))
        if code:
            return hits, f"could not be taken up, exit code {code}: {log.read_text()[-300:]}"
        return hits, _verdict(operation, folder, expected)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        log.unlink(missing_ok=True)


def _wait_for_the_moment(operation: Operation, folder: Path, chance: random.Random, seconds: float) -> None:
    end = time.monotonic() + chance.uniform(0.0, 1.0) * seconds
    if operation.writes is not None:  # the first such write after the moment, and a little into it
        limit = end + seconds
        while time.monotonic() < limit:
            if time.monotonic() > end - 0.5 * seconds and any((folder / "run").glob(operation.writes)):
                time.sleep(chance.uniform(0.0, 0.002))
                return
        return
    time.sleep(max(0.0, end - time.monotonic()))


def _verdict(operation: Operation, folder: Path, expected: Path) -> str | None:
    if broken := half_written(folder):
        return f"half a file: {broken}"
    left = [str(path.relative_to(folder)) for path in folder.rglob(".*") if path.name.endswith((".tmp", ".lock"))]
    if left:
        return f"left behind: {left}"
    return None if operation.same(folder, expected) else "the result differs from the uninterrupted one"


def kills(count: int, seed: int, reference: Reference) -> dict[str, Any]:
    """`count` kills that found their process alive."""
    tried: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    failures = []
    number = 0
    while sum(tried.values()) < count:
        name = list(OPERATIONS)[number % len(OPERATIONS)]
        hits, wrong = one_kill(name, random.Random(f"{seed}/{number}"), reference)
        tried[name] += hits
        if wrong is None:
            survived[name] += hits
        else:
            failures.append({"case": number, "operation": name, "wrong": wrong})
        number += 1
        print(f"faults: {sum(tried.values())} of {count} kills, {sum(survived.values())} survived", file=sys.stderr)
    by = {name: {"tried": tried[name], "survived": survived[name]} for name in OPERATIONS if tried[name]}
    return {"tried": sum(tried.values()), "survived": sum(survived.values()), "by": by, "failures": failures}


@contextlib.contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[str]:
    """A file system of that size at `place` where the machine allows it; else a limit on files, for children."""
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    if os.geteuid() == 0 and shutil.which("mount") and subprocess.run(mount, capture_output=True).returncode == 0:
        try:
            yield "tmpfs"
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
    else:
        yield "limit on the size of files"


def full_disks(count: int, seed: int, reference: Reference) -> dict[str, Any]:
    """Each operation on disks of random sizes that are too small; then there is space again."""
    tried: Counter[str] = Counter()
    failures, ways = [], set()
    for number in range(count):
        chance = random.Random(f"{seed}/full/{number}")
        name = list(OPERATIONS)[number % len(OPERATIONS)]
        operation, expected = OPERATIONS[name], reference.of(name)
        place = reference.work / "disk"
        with small_disk(place, 1 << 16) as way:
            ways.add(way)
            start = operation.start(place, reference.base)
            used = sum(path.stat().st_blocks * 512 for path in place.rglob("*") if path.is_file())
            needed = sum(path.stat().st_blocks * 512 for path in expected.rglob("*") if path.is_file())
            room = int(used + chance.uniform(0.0, 1.0) * (needed - used))
            limit = _limit(way, place, room)
            log = reference.work / "log"
            code = wait(in_child(start, log, limit))
            output = log.read_text()
            wrong = None
            if code not in (0, 1) or "Traceback" in output:
                wrong = f"exit code {code}: {output[-300:]}"
            elif code == 1 and not any(words in output for words in ("No space left", "File too large", "space")):
                wrong = f"another reason: {output[-300:]}"
            elif broken := half_written(place):
                wrong = f"half a file: {broken}"
            else:
                _limit(way, place, 1 << 26)
                code = wait(in_child(operation.again(place, reference.base), log))
                wrong = f"exit code {code}: {log.read_text()[-300:]}" if code else _verdict(operation, place, expected)
        shutil.rmtree(place, ignore_errors=True)
        tried[name] += 1
        if wrong is not None:
            failures.append({"case": number, "operation": name, "room": room, "wrong": wrong})
        print(f"faults: {number + 1} of {count} full disks, {len(failures)} failures", file=sys.stderr)
    return {
        "tried": count,
        "survived": count - len(failures),
        "way": ", ".join(sorted(ways)),
        "by": dict(tried),
        "failures": failures,
    }


def _limit(way: str, place: Path, room: int) -> Callable[[], None]:
    """Leave so many bytes of room: at once on a file system of our own, else in the child that is given this."""
    if way == "tmpfs":
        size = max(room // 1024, 64)
        subprocess.run(["mount", "-o", f"remount,size={size}k", str(place)], check=True, capture_output=True)
        return lambda: None

    def in_the_child() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(room // 4, 4096), resource.RLIM_INFINITY))

    return in_the_child


def read_only(reference: Reference) -> dict[str, Any]:
    """Each operation in a folder that can't be written to: a sentence, and nothing changed."""
    failures, tried = [], 0
    place = reference.work / "disk"
    for name, operation in OPERATIONS.items():
        with small_disk(place, 1 << 16) as way:
            start = operation.start(place, reference.base)
            if way == "tmpfs":
                subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            elif os.geteuid() != 0:
                for path in (place, *place.rglob("*")):
                    path.chmod(0o500 if path.is_dir() else 0o400)
            else:
                continue
            log = reference.work / "log"
            code = wait(in_child(start, log))
            output, tried = log.read_text(), tried + 1
            if code != 1 or "Traceback" in output or not any(w in output for w in ("Read-only", "Permission denied")):
                failures.append({"operation": name, "wrong": f"exit code {code}: {output[-300:]}"})
            if way != "tmpfs":
                for path in (place, *place.rglob("*")):
                    path.chmod(0o700)
        shutil.rmtree(place, ignore_errors=True)
    return {"tried": tried, "survived": tried - len(failures), "failures": failures}


def run(count: int, seed: int) -> dict[str, Any]:
    """`count` kills, a third as many full disks, and read-only folders; the result file's content."""
    with tempfile.TemporaryDirectory() as work, served_data():
        reference = Reference(Path(work))
        return {
            "kills": kills(count, seed, reference),
            "full_disks": full_disks(max(count // 3, 2), seed, reference),
            "read_only": read_only(reference),
        }
