"""What `kvicreg select` understands."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from kvicreg.training.config import TrainConfig

__all__ = ["SelectFlags", "minutes_of", "steps_of"]


@dataclass(kw_only=True)
class SelectFlags(TrainConfig):
    """Settings that all candidates share, as for `kvicreg train`, and how to choose among them."""

    budget: str = "2000steps"
    """Steps to spend on all candidates together, before the winner's own full run."""
    time: str | None = None
    """Spend about so long instead, such as 30m or 2h; the outcome then depends on the machine."""
    candidates: tuple[str, ...] = ()
    """Candidates: kernels as for kvicreg train, names from docs/selection.md, YAML files; by default all 20."""
    criterion: str | None = None
    """Label-free criterion to rank by; by default the one that has predicted probes best."""
    full: bool = True
    """Continue the winner to a full run (--no-full: stop when it is known)."""
    resume: str | None = None
    """Study folder to continue or to join; takes no other flag."""

    @property
    def shared(self) -> TrainConfig:
        """The settings of a run alone."""
        return TrainConfig(**{f.name: getattr(self, f.name) for f in dataclasses.fields(TrainConfig)})

    @property
    def choice(self) -> dict[str, Any]:
        """The settings of the choosing."""
        return {name: getattr(self, name) for name in ("budget", "time", "candidates", "criterion", "full")}


def steps_of(said: str) -> int:
    """2000 of "2000steps" or "2000"."""
    match = re.fullmatch(r"\s*([0-9][0-9_,]*)\s*(?:steps?)?\s*", said)
    if match is None or int(re.sub(r"\D", "", match[1])) < 1:
        raise ValueError(f"budget: expected a number of steps such as 2000steps, got {said!r}; for a time, use --time")
    return int(re.sub(r"\D", "", match[1]))


def minutes_of(said: str) -> float:
    """30 of "30m" or "0.5h"; seconds as "90s"."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smh])\s*", said)
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"time: expected something like 30m or 2h, got {said!r}")
    return float(match[1]) * {"s": 1 / 60, "m": 1.0, "h": 60.0}[match[2]]
