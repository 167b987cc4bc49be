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
        _against(called, results["against"][name]["linear_probe"])
        for name, called in CONTROLS.items()
        if name in results["against"]
    ]
    if parts:
        sentence += ": " + _joined(parts)
    return f"{sentence}. The features are {collapse}."


def _against(called: str, difference: dict[str, float]) -> str:
    points = 100 * difference["difference"]
    if difference["p_value"] >= 0.05:
        return f"no clear difference from {called} ({points:+.1f} points, p = {difference['p_value']:.2g})"
    return f"{abs(points):.1f} points {'above' if points > 0 else 'below'} {called}"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
