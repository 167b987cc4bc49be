"""What there is to choose from: kernels, bandwidths, mixtures, adaptive kernels, and sweeps of the two weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kvicreg.training.config import TrainConfig, from_dict

__all__ = ["DEFAULT", "Candidate", "read_candidates"]


@dataclass(frozen=True)
class Candidate:
    """Settings to try, on top of those that all candidates share."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    def of(self, config: TrainConfig) -> TrainConfig:
        """The config with the candidate's settings."""
        return replace(config, **self.settings)


def _kernel(kernel: str, **settings: Any) -> dict[str, Any]:
    return {"kernel": kernel, **settings}


DEFAULT: tuple[Candidate, ...] = (
    Candidate("rbf", _kernel("rbf")),
    Candidate("linear", _kernel("linear")),
    Candidate("polynomial", _kernel("polynomial")),
    Candidate("laplacian", _kernel("laplacian")),
    Candidate("rq", _kernel("rq")),
    Candidate("rbf-bandwidth-0.5", _kernel("rbf", bandwidth_multiple=0.5)),
    Candidate("rbf-bandwidth-2", _kernel("rbf", bandwidth_multiple=2.0)),
    Candidate("rbf-bandwidth-4", _kernel("rbf", bandwidth_multiple=4.0)),
    Candidate("rbf+linear", _kernel("rbf+linear")),
    Candidate("rbf+linear-learnt", _kernel("rbf+linear", learn_mixture=True)),
    Candidate("multi-rbf", _kernel("multi-rbf")),
    Candidate("self-tuning", _kernel("self-tuning")),
    Candidate("rbf-per-dimension", _kernel("rbf", per_dimension=True)),
    Candidate("rbf-variance-0.5", _kernel("rbf", variance_weight=0.5)),
    Candidate("rbf-variance-2", _kernel("rbf", variance_weight=2.0)),
    Candidate("rbf-covariance-0", _kernel("rbf", covariance_weight=0.0)),
    Candidate("rbf-covariance-0.1", _kernel("rbf", covariance_weight=0.1)),
    Candidate("rbf-covariance-0.5", _kernel("rbf", covariance_weight=0.5)),
    Candidate("linear-variance-2", _kernel("linear", variance_weight=2.0)),
    Candidate("linear-covariance-0", _kernel("linear", covariance_weight=0.0)),
)
"""The invariance weight stays fixed; variance and covariance weight are swept one at a time, as the paper suggests."""


def read_candidates(said: Sequence[str]) -> list[Candidate]:
    """Candidates by name, kernels as `kvicreg train --kernel` takes them, or a YAML file of settings by name."""
    known = {candidate.name: candidate for candidate in DEFAULT}
    found: list[Candidate] = []
    for name in said:
        if Path(name).suffix in (".yaml", ".yml"):
            found += _read_file(Path(name))
        else:
            found.append(known.get(name, Candidate(name.replace("*", ""), _kernel(name))))
    names = [candidate.name for candidate in found]
    unfit = [name for name in names if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name)]
    if unfit:
        raise ValueError(f"candidates: {unfit[0]!r} can't be the name of a folder; use letters, digits and . _ + -")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"candidates: two are called {sorted(repeated)[0]!r}")
    if len(found) < 2:
        raise ValueError(f"candidates: there is nothing to choose from with {len(found)}; give at least two")
    return found


def _read_file(path: Path) -> list[Candidate]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or not all(isinstance(settings, dict) for settings in content.values()):
        raise ValueError(f"{path}: expected lines like 'wide: {{kernel: rbf, bandwidth_multiple: 4}}'")
    for name, settings in content.items():
        from_dict(settings, f"{path}: {name}")
    return [Candidate(str(name), settings) for name, settings in content.items()]
