"""The measured part of docs/explore.md, from the files in docs/results/explore."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.common.tables import markdown

__all__ = ["measured_part"]

Content = dict[str, Any]


def measured_part(results: Path) -> str:
    """Every table whose file is there, and what makes those that are not."""
    parts: dict[str, tuple[str, Callable[[Content], str]]] = {
        "duplicates": ("explore-duplicates RUN PHOTOS", duplicates),
        "duplicates-unseen": ("explore-duplicates RUN tiny-imagenet/val --name duplicates-unseen", duplicates),
        "leaks": ("explore-leaks RUN duplicates_cifar10.csv", found_leaks),
        "labelling": ("explore-labelling RUN cifar10 mnist fashion-mnist", labelling),
        "speed-cifar10": ("explore-speed RUN cifar10 --name speed-cifar10", speed),
        "speed-photos": ("explore-speed RUN PHOTOS --name speed-photos", speed),
    }
    texts = []
    for name, (command, written) in parts.items():
        path = results / "explore" / f"bench-{name}.json"
        done = written(json.loads(path.read_text())) if path.is_file() else "Not run yet."
        texts.append(f"{done}\n\n`python -m experiments {command}`")
    return "\n\n".join(texts) + "\n"


def duplicates(content: Content) -> str:
    kinds = list(content["rows"][0]["by_kind"])
    rows = [
        [row["method"], *(f"{100 * row[key]:.1f}" for key in ("precision", "recall")),
         *(f"{100 * row['by_kind'][kind]:.1f}" for kind in kinds)]
        for row in content["rows"]
    ]  # fmt: skip
    opening = (
        f"**Near duplicates.** {content['planted']} copies, altered in four ways, among {content['images']:,} "
        f"photographs of {content['photographs']}; every pair is judged, thresholds (but for the default) are the best "
        "for each method, all in %:"
    )
    return f"{opening}\n\n{markdown(['method', 'precision', 'recall', *kinds], rows)}"


def found_leaks(content: Content) -> str:
    total = content["listed"]
    rows = [[f"{row['threshold']:g}", f"{row['images']:,}", f"{row['listed']} of {total}"] for row in content["rows"]]
    opening = (
        "**Leaks.** CIFAR-10 has near duplicates between its test and training images; ciFAIR (Barz and Denzler, 2020) "
        f"lists {total} test images with one, judged by people. Of the 10,000 test images, by threshold:"
    )
    return f"{opening}\n\n{markdown(['threshold', 'test images with a twin', 'of those listed'], rows)}"


def labelling(content: Content) -> str:
    rows = []
    for data in dict.fromkeys(row["data"] for row in content["rows"]):
        for choice in ("chosen", "random"):
            curves = [r["accuracy"] for r in content["rows"] if r["data"] == data and r["choice"] == choice]
            last = [100 * curve[str(content["clicks"])] for curve in curves]
            means = [f"{100 * mean(curve[count] for curve in curves):.1f}" for count in curves[0]]
            rows.append([data, choice, *means, ", ".join(f"{value:.1f}" for value in last)])
    counts = [f"{count} clicks" for count in content["rows"][0]["accuracy"]]
    opening = (
        f"**Labelling.** Accuracy in % on the images without a label, of {content['images']:,}, after clicks on images "
        "that the tool chose and on random ones; mean of the seeds, and the last column by seed:"
    )
    return f"{opening}\n\n{markdown(['data', 'images', *counts, 'each seed'], rows)}"


def speed(content: Content) -> str:
    first, second, maps, many = (content[key] for key in ("first", "second", "map", "map_of_many"))
    rows = [
        ["command to first picture, all images to embed", f"{first['seconds_to_picture']:g} s"],
        ["command to first picture, second visit", f"{second['seconds_to_picture']:g} s"],
        ["memory of the server, now and at its peak", "{now:,} and {peak:,} MB".format(**content["megabytes"])],
        ["search as the page asks for it, p50 and p99", "{p50:g} and {p99:g} ms".format(**content["search_ms"])],
        ["one query, exact, p50 and p99", "{p50:g} and {p99:g} ms".format(**content["exact"])],
        ["one query, graph, p50 and p99", "{p50:g} and {p99:g} ms".format(**content["graph"])],
        ["recall of the 10 nearest by the graph", f"{100 * content['graph']['recall_at_10']:.1f} %"],
        ["frames per second while moving the map, median and slowest 5 %", _frames(maps)],
        [f"the same with {many['points']:,} made-up points", _frames(many)],
    ]
    return f"**Speed**, {content['images']:,} images of {content['source']}:\n\n{markdown(['', 'measured'], rows)}"


def _frames(rate: Content) -> str:
    drawn = f"{rate['points_while_moving']:,} points drawn"
    return f"{rate['fps_median']:g} and {rate['fps_slowest_5_percent']:g}, {drawn}"
