"""Settings of a selection: how much to spend, on which candidates, and by which criterion to rank them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvicreg.options import Options, did_you_mean, option
from kvicreg.runs.durations import minutes
from kvicreg.selection.criteria import CRITERIA

__all__ = ["SelectOptions", "steps"]


@dataclass(frozen=True, kw_only=True)
class SelectOptions(Options):
    """How to choose among candidates; what they share is a `Settings`.

    Example:
        >>> SelectOptions.of(budget="500steps", candidates=["rbf", "linear"]).candidates
        ('rbf', 'linear')
    """

    budget: str = option("2000steps", "Steps to spend on all candidates together, before the winner's full run.")
    time: str | None = option(
        None, "Spend about this long instead, such as 30m or 2h; the outcome then depends on the machine."
    )
    candidates: tuple[str, ...] = option(
        (), "Kernels as for kvicreg train, names from docs/selection.md, or YAML files; by default all 20."
    )
    criterion: str | None = option(
        None, "Label-free criterion to rank by; by default the one that has predicted probes best."
    )
    full: bool = option(True, "Continue the winner to a full run; otherwise stop when it is known.")

    def __post_init__(self) -> None:
        super().__post_init__()
        steps(self.budget)
        if self.time is not None:
            minutes(self.time)
        if self.criterion is not None and self.criterion not in CRITERIA:
            raise ValueError(f"there is no criterion {self.criterion!r}; {did_you_mean(self.criterion, CRITERIA)}")


def steps(text: str) -> int:
    """The number of steps in a text such as "2000steps" or "2,000"."""
    match = re.fullmatch(r"\s*([0-9][0-9_,]*)\s*(?:steps?)?\s*", text)
    if match is None or int(re.sub(r"\D", "", match[1])) < 1:
        raise ValueError(f"budget: expected a number of steps such as 2000steps, got {text!r}; for a time, use --time")
    return int(re.sub(r"\D", "", match[1]))
