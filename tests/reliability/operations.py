"""What is interrupted: each operation's command, how it is taken up again, and when its result is the same."""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import yaml
from PIL import Image
from safetensors.torch import load_file

from kvicreg.cli import main
from kvicreg.data import catalogue
from kvicreg.training.checkpoint import AtomicCheckpointIO
from tests.reliability.words import SMALL

TRAIN = ["--image-size=16", "--epochs=4", "--seed=3", "--bandwidth=median", "--bandwidth-momentum=0.9", *SMALL]


@dataclass(frozen=True)
class Operation:
    """One kind of work.

    Attributes:
        start: the command line, given the folder to work in and the base with ready files.
        again: the command line that takes it up after an interruption.
        same: whether the result in a folder equals the one in another.
        writes: a pattern of the temporary file to wait for before the kill; None for any moment.
        kills: at most so many in a row; a study gives a candidate up that has died three times.
    """

    start: Callable[[Path, Path], list[str]]
    again: Callable[[Path, Path], list[str]]
    same: Callable[[Path, Path], bool]
    writes: str | None = None
    kills: int = 3


def _train(folder: Path, base: Path) -> list[str]:
    return ["train", "--data", f"{base}/images", *TRAIN, f"--out={folder}/run"]


def _train_again(folder: Path, base: Path) -> list[str]:
    there = (folder / "run" / "config.yaml").is_file()
    return ["train", f"--resume={folder}/run"] if there else _train(folder, base)


def _checkpoint(folder: Path, base: Path) -> list[str]:
    return [*_train(folder, base), "--checkpoint-steps=1"]


def _checkpoint_again(folder: Path, base: Path) -> list[str]:
    there = (folder / "run" / "config.yaml").is_file()
    return ["train", f"--resume={folder}/run"] if there else _checkpoint(folder, base)


def _evaluate(folder: Path, base: Path) -> list[str]:
    _borrow_run(folder, base)
    return ["evaluate", f"{folder}/run", "--robustness-images=8", "--map-images=0", "--projector"]


def _report(folder: Path, base: Path) -> list[str]:
    _borrow_run(folder, base)
    return ["report", f"{folder}/run"]


def _embed(folder: Path, base: Path) -> list[str]:
    return ["embed", f"{base}/run", f"{base}/images", f"--out={folder}/e.npz", "--batch-size=1", "--workers=0"]


def _fetch(folder: Path, base: Path) -> list[str]:
    return ["data", "get", "fetched", f"--root={folder}"]


def _study(folder: Path, base: Path) -> list[str]:
    shared = ["--image-size=16", *(word for word in SMALL if not word.startswith("--probe"))]
    choice = ["--candidates", "linear", "rbf", "--budget=12steps", f"--out={folder}/study"]
    return ["select", "--data", f"{base}/images", *shared, *choice, "--epochs=2"]


def _study_again(folder: Path, base: Path) -> list[str]:
    there = (folder / "study" / "study.yaml").is_file()
    return ["select", f"--resume={folder}/study"] if there else _study(folder, base)


def _borrow_run(folder: Path, base: Path) -> None:
    if not (folder / "run").exists():
        shutil.copytree(base / "run", folder / "run", ignore=shutil.ignore_patterns("*.ckpt", "tensorboard"))
        shutil.rmtree(folder / "run" / "evaluation" / "features", ignore_errors=True)


def same_weights(one: Path, two: Path) -> bool:
    """Bit for bit, and the same rows of metrics but for the speed."""
    rows = [[r.split(",")[:12] for r in (f / "run" / "metrics.csv").read_text().splitlines()] for f in (one, two)]
    for name in ("encoder.safetensors", "projector.safetensors"):
        a, b = load_file(one / "run" / name), load_file(two / "run" / name)
        if a.keys() != b.keys() or not all(a[key].equal(b[key]) for key in a):
            return False
    return rows[0] == rows[1]


def same_choice(one: Path, two: Path) -> bool:
    contents = [(folder / "study" / "selection.json").read_text().replace(str(folder), "") for folder in (one, two)]
    return contents[0] == contents[1]


def same_results(one: Path, two: Path) -> bool:
    contents = [json.loads((folder / "run" / "results.json").read_text()) for folder in (one, two)]
    for results in contents:
        for key in ("seconds", "finished", "command"):
            results.pop(key)
    return contents[0] == contents[1]


def same_page(one: Path, two: Path) -> bool:
    pages = [(f / "run" / "report.html").read_text().replace(str(f), "") for f in (one, two)]
    figures = [sorted(p.name for p in (f / "run" / "figures").iterdir()) for f in (one, two)]
    return pages[0] == pages[1] and figures[0] == figures[1]


def same_embeddings(one: Path, two: Path) -> bool:
    with np.load(one / "e.npz", allow_pickle=False) as a, np.load(two / "e.npz", allow_pickle=False) as b:
        return a.files == b.files and all((a[key] == b[key]).all() for key in a.files)


def same_files(one: Path, two: Path) -> bool:
    contents = [{p.name: p.read_bytes() for p in (f / "fetched").iterdir()} for f in (one, two)]
    return contents[0] == contents[1] and not (one / ".fetched.partial").exists()


OPERATIONS = {
    "train": Operation(_train, _train_again, same_weights),
    "checkpoint": Operation(_checkpoint, _checkpoint_again, same_weights, "checkpoints/.last.ckpt.*.tmp"),
    "data fetch": Operation(_fetch, _fetch, same_files),
    "evaluate": Operation(_evaluate, _evaluate, same_results),
    "report": Operation(_report, _report, same_page),
    "study": Operation(_study, _study_again, same_choice, kills=2),
    "embed": Operation(_embed, _embed, same_embeddings),
}


def half_written(folder: Path) -> list[str]:
    """Files under their final names that can't be read as a whole."""
    broken = []
    for path in folder.rglob("*"):
        if not path.is_file() or path.name.startswith(".") or ".partial" in str(path) or "tensorboard" in str(path):
            continue
        try:
            _read(path)
        except Exception as error:
            broken.append(f"{path.relative_to(folder)}: {type(error).__name__}: {error}"[:200])
    return broken


def _read(path: Path) -> None:
    if path.suffix == ".ckpt":
        AtomicCheckpointIO().load_checkpoint(path)
    elif path.suffix == ".json":
        json.loads(path.read_text())
    elif path.suffix == ".yaml":
        assert isinstance(yaml.safe_load(path.read_text()), dict)
    elif path.suffix == ".csv":
        assert len({len(row) for row in csv.reader(path.read_text().splitlines())}) == 1
        assert path.read_text().endswith("\n")
    elif path.suffix in (".npz", ".npy"):
        contents = np.load(path, allow_pickle=False)
        _ = [contents[key] for key in contents.files] if path.suffix == ".npz" else contents.sum()
    elif path.suffix == ".safetensors":
        load_file(path)
    elif path.suffix == ".html":
        assert path.read_text().rstrip().endswith("</html>")
    elif path.suffix == ".svg":
        ElementTree.parse(path)
    elif path.suffix == ".png":
        Image.open(path).load()
    elif path.parent.name == "fetched":
        assert hashlib.md5(path.read_bytes()).hexdigest() == catalogue.DATA_SETS["fetched"].files[path.name]


def in_child(argv: list[str], log: Path, prepare: Callable[[], None] = lambda: None) -> int:
    """Start a command in a process group of its own, forked so that nothing need be imported again; its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # where it has already ended
            os.setpgid(pid, pid)  # here too: it may be killed before its own line is reached
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        prepare()
        code = main(argv)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def wait(pid: int, seconds: float = 300.0) -> int:
    """The exit code of a child (negative for a signal); it is killed when it takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -signal.SIGALRM


@contextlib.contextmanager
def served_data() -> Iterator[None]:
    """The data set "fetched": two files at a slow server of this machine, in a process of its own."""
    content = {f"part-{k}": bytes((k + j * j) % 251 for j in range(200_000)) for k in (1, 2)}
    packed = {f"/{name}.gz": gzip.compress(data, 1) for name, data in content.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = packed[self.path]
            requested = self.headers.get("Range")
            first = int(requested.removeprefix("bytes=").removesuffix("-")) if requested else 0
            if first >= len(body):
                self.send_error(416)
                return
            self.send_response(206 if requested else 200)
            self.send_header("Content-Length", str(len(body) - first))
            self.end_headers()
            for k in range(first, len(body), 4096):
                self.wfile.write(body[k : k + 4096])
                time.sleep(0.005)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            server.serve_forever()
        os._exit(0)
    sums = {name: hashlib.md5(data).hexdigest() for name, data in content.items()}
    url = f"http://127.0.0.1:{server.server_port}/"
    server.server_close()
    catalogue.DATA_SETS["fetched"] = catalogue.DataSet("", "", 1, files=sums, urls=(url,))
    try:
        yield
    finally:
        del catalogue.DATA_SETS["fetched"]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
