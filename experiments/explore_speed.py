"""How long `kvicreg explore` takes to show a picture, what it needs, and how fluid its map and quick its search are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.explore import OUT, write
from kvicreg.explore import Index, open_images

FLAGS = "--headless=new --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader --window-size=1400,900"
READY = "return document.documentElement.dataset.ready === 'yes'"
FIRST = "const i = document.querySelector('#chosen img'); return Boolean(i && i.complete && i.naturalWidth)"
FRAMES = """
const done = arguments[0], map = kvicreg.map, deltas = [], end = performance.now() + 10000; let last = 0, k = 0;
function step(now) {
  if (last) deltas.push(now - last);
  last = now;
  if (++k > 300 || now > end) { done([deltas, map.points.drawn]); return; }
  map.pan(6 * Math.sin(k / 12), 4 * Math.cos(k / 12));
  if (k % 30 === 0) map.zoom(k % 60 ? 1.3 : 1 / 1.3);
  requestAnimationFrame(step);
}
requestAnimationFrame(step);"""
MANY = """
const n = arguments[0], map = kvicreg.map, xy = new Float32Array(2 * n), colours = new Uint8Array(3 * n);
for (let i = 0; i < 2 * n; i++) xy[i] = (Math.random() + Math.random() + Math.random()) * 2 / 3 - 1;
for (let i = 0; i < 3 * n; i++) colours[i] = 255 * Math.random();
const points = document.getElementById("points"), canvas = points.cloneNode();
points.replaceWith(canvas);
map.draw = () => {};
kvicreg.map = new map.constructor(map.holder, n, map.on);
kvicreg.map.image = () => ({ complete: false });
kvicreg.map.place(xy); kvicreg.map.paint(colours, new Uint8Array(n).fill(1));"""


def explore_speed(run: Path, source: str, /, name: str = "speed", points: int = 200_000, out: Path = OUT) -> str:
    """Time to the first picture, memory, frames per second of the map, latency and recall of search.

    The browser is chromium without a window, which draws WebGL in software: a graphics card draws faster.

    Args:
        run: run folder.
        source: data set by name, or folder.
        name: of the file to write.
        points: made-up points that the map is drawn with as well.
        out: folder to write to.
    """
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS.split():
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    browser.set_script_timeout(300)
    try:
        with tempfile.TemporaryDirectory() as folder:
            numbers = measured(run, source, Path(folder), browser, points)
    finally:
        browser.quit()
    print(json.dumps(numbers, indent=1))
    return write(out, name, {"encoder": run.name, "source": Path(source).name, **numbers})


def measured(run: Path, source: str, folder: Path, browser: Any, points: int) -> dict[str, Any]:
    """All numbers of a source."""
    numbers: dict[str, Any] = {}
    for visit in ("first", "second"):
        started = time.perf_counter()
        with serving(run, source, folder) as (process, address):
            embedded = time.perf_counter() - started
            browser.get(address)
            wait(lambda: browser.execute_script(READY))
            browser.execute_script("kvicreg.choose(0)")
            wait(lambda: browser.execute_script(FIRST))
            shown = time.perf_counter() - started
            numbers[visit] = {"seconds_to_address": round(embedded, 1), "seconds_to_picture": round(shown, 1)}
            if visit == "second":
                wait(lambda: fetch(f"{address}state")["parts"]["outliers"] == "ready", 3600)
                numbers["images"] = fetch(f"{address}state")["count"]
                numbers["megabytes"] = megabytes(process.pid)
                numbers["search_ms"] = latencies(address, numbers["images"])
                numbers["map"] = frames(browser)
                browser.execute_script(MANY, points)
                numbers["map_of_many"] = {"points": points, **frames(browser)}
    collection = open_images(run, source, cache=folder / "cache", workers=0)
    graph = Index(collection.unit, collection.folder, exact_below=0)
    return {**numbers, "graph": {"recall_at_10": round(graph.recall(10, queries=500), 4), **timed(graph)},
            "exact": timed(Index(collection.unit, exact_below=len(collection) + 1))}  # fmt: skip


@contextmanager
def serving(run: Path, source: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as people give it, and the address that it prints."""
    command = ["-m", "kvicreg", "explore", str(run), source, "--cache", f"{folder}/cache", "--no-browser"]
    labels = ["--labels", f"{folder}/labels.csv"]
    process = subprocess.Popen([sys.executable, *command, *labels], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        yield process, next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
    finally:
        process.terminate()
        process.wait()


def wait(condition: Callable[[], Any], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise ValueError(f"nothing happened for {seconds:.0f} seconds")
        time.sleep(0.02)


def fetch(address: str, content: Any = None) -> Any:
    body = None if content is None else json.dumps(content).encode()
    with urllib.request.urlopen(urllib.request.Request(address, body), timeout=60) as response:
        return json.load(response)


def megabytes(process: int) -> dict[str, int]:
    """Memory of a process, now and at its peak."""
    text = Path(f"/proc/{process}/status").read_text()
    kilobytes = {name: int(value) for name, value in re.findall(r"(VmRSS|VmHWM):\s+(\d+)", text)}
    return {"now": kilobytes["VmRSS"] // 1024, "peak": kilobytes["VmHWM"] // 1024}


def quantiles(milliseconds: list[float]) -> dict[str, float]:
    return {f"p{share}": round(float(np.quantile(milliseconds, share / 100)), 2) for share in (50, 99)}


def latencies(address: str, count: int, queries: int = 300) -> dict[str, float]:
    """Milliseconds of searches as the page sends them."""
    times = []
    for index in np.random.default_rng(0).integers(0, count, queries).tolist():
        started = time.perf_counter()
        fetch(f"{address}search", {"positive": [index]})
        times.append(1000 * (time.perf_counter() - started))
    return quantiles(times)


def timed(index: Index, queries: int = 300) -> dict[str, float]:
    """Milliseconds of single queries, without the server."""
    times = []
    for row in torch.randperm(len(index.rows), generator=torch.Generator().manual_seed(1))[:queries].tolist():
        started = time.perf_counter()
        index.search(index.rows[[row]], 10)
        times.append(1000 * (time.perf_counter() - started))
    return quantiles(times)


def frames(browser: Any) -> dict[str, Any]:
    """Frames per second while the map is moved and zoomed, and how many points the last of them had."""
    deltas, drawn = browser.execute_async_script(FRAMES)
    half = deltas[len(deltas) // 3 :]  # after it has adapted
    slow = float(np.quantile(half, 0.95))
    rate = {"fps_median": round(1000 / float(np.median(half)), 1), "fps_slowest_5_percent": round(1000 / slow, 1)}
    return {**rate, "points_while_moving": drawn}


COMMANDS: dict[str, Callable[..., str]] = {"explore-speed": explore_speed}
