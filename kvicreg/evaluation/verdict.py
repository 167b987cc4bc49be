"""The results in a sentence or two, for people who read nothing else; what is worse is named as plainly."""

from __future__ import annotations

from typing import Any

CONTROLS = {
    "raw pixels": "raw pixels",
    "random encoder": "the same encoder untrained",
    "supervised": "the same encoder taught with labels",
}


def percent(value: float) -> str:
    """A fraction as a percentage with as many digits as 10,000 images carry."""
    return f"{100 * value:.1f} %"


def verdict(results: dict[str, Any]) -> str:
    """The verdict on evaluation results: accuracy, how it compares with the controls, and whether it collapsed."""
    collapse = results["diagnostics"]["verdict"]
    subjects = results["subjects"]
    probe = subjects["encoder"].get("linear_probe")
    if probe is None:
        return f"Without labels nothing can be said of accuracy; the features are {collapse}."
    sentence = (
        f"A linear probe on the frozen encoder is right on {percent(probe['value'])} of the "
        f"{results['data']['name']} test images ({percent(probe['low'])} to {percent(probe['high'])})"
    )
    parts = [
        _against(called, results["against"][name]) for name, called in CONTROLS.items() if name in results["against"]
    ]
    if parts:
        sentence += ": " + _joined(parts)
    sentences = [f"{sentence}.", f"The features are {collapse}."]
    if "starting encoder" in results["against"]:
        sentences.insert(1, _since_the_start(results["against"]["starting encoder"]))
    return " ".join(sentences)


def _since_the_start(differences: dict[str, dict[str, float]]) -> str:
    """Whether the training has helped an encoder that started from weights, by the linear probe and by k-NN."""
    probe, neighbours = differences["linear_probe"], differences["knn"]
    signs = {difference["difference"] > 0 for difference in (probe, neighbours) if _is_clear(difference)}
    opening = {
        frozenset(): "It is not clear that the training helped",
        frozenset({True}): "The training helped",
        frozenset({False}): "The training did harm",
    }.get(frozenset(signs), "The training helped by one measure and did harm by the other")
    moved = f"the linear probe has moved by {_interval(probe)} and k-NN by {_interval(neighbours)}"
    return f"{opening}: since the weights it started from, {moved}."


def _interval(difference: dict[str, float]) -> str:
    value, low, high = (100 * difference[name] for name in ("difference", "low", "high"))
    return f"{value:+.1f} points ({low:+.1f} to {high:+.1f})"


def _against(called: str, differences: dict[str, dict[str, float]]) -> str:
    """The difference of the linear probes, and that of k-NN where it is the one that is clear, or twice as large."""
    probe, neighbours = differences["linear_probe"], differences["knn"]
    if not _is_clear(probe):
        points = f"{100 * probe['difference']:+.1f} points, p = {probe['p_value']:.2g}"
        by_neighbours = f"; k-NN: {_points(neighbours)}" if _is_clear(neighbours) else ""
        return f"no clear difference from {called} ({points}{by_neighbours})"
    sentence = f"{_points(probe)} {called}"
    if not _is_clear(neighbours):
        return sentence
    apart = abs(neighbours["difference"]) > 2 * abs(probe["difference"])
    apart |= neighbours["difference"] * probe["difference"] < 0
    return f"{sentence} (k-NN: {_points(neighbours)})" if apart else sentence


def _is_clear(difference: dict[str, float]) -> bool:
    return difference["p_value"] < 0.05


def _points(difference: dict[str, float]) -> str:
    points = 100 * difference["difference"]
    return f"{abs(points):.1f} points {'above' if points > 0 else 'below'}"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
