"""What there is to choose from: kernels, bandwidths, mixtures, adaptive kernels, and sweeps of the two weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvicreg.runs import Settings
from kvicreg.storage import read_yaml

__all__ = ["DEFAULT", "Candidate", "check_candidates", "read_candidates", "shared_settings"]


@dataclass(frozen=True)
class Candidate:
    """Settings to try, by flat name, on top of those that all candidates share."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    def of(self, shared: Settings) -> Settings:
        """The shared settings with those of the candidate."""
        try:
            return shared.replace(**self.settings)
        except ValueError as error:
            raise ValueError(f"candidate {self.name}: {error}") from error


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


def read_candidates(names: Sequence[str] = ()) -> list[Candidate]:
    """Candidates by name, kernels as `kvicreg train --kernel` takes them, or YAML files of settings by name.

    Without names, all of `DEFAULT`.
    """
    if not names:
        return list(DEFAULT)
    by_name = {candidate.name: candidate for candidate in DEFAULT}
    candidates: list[Candidate] = []
    for name in names:
        if Path(name).suffix in (".yaml", ".yml"):
            candidates += _read_file(Path(name))
        else:
            candidates.append(by_name.get(name, Candidate(name.replace("*", ""), _kernel(name))))
    _check_names([candidate.name for candidate in candidates])
    return candidates


def shared_settings(given: Mapping[str, Any], names: Sequence[str] = ()) -> Settings:
    """The settings, by flat name, that all candidates share; one that candidates choose is refused.

    Args:
        given: what was given, even where it equals the default.
        names: the candidates, as for `read_candidates`.
    """
    _check_shared(given, read_candidates(names))
    return Settings.of(**given)


def check_candidates(candidates: Sequence[Candidate], shared: Settings) -> None:
    """Raise a ValueError unless the candidates fit the settings that they share, and read all of them."""
    if "kernel" not in shared.flat():
        raise ValueError(f"the method {shared.method.choice} has no kernel to choose; choose for kernel-vicreg")
    _check_shared(shared.given(), candidates)
    settings = [candidate.of(shared) for candidate in candidates]
    for name in shared.given():
        if not any(name in each.flat() for each in settings):
            raise ValueError(f"none of the candidates reads {name}; leave it out, or choose others with --candidates")


def _check_shared(given: Iterable[str], candidates: Iterable[Candidate]) -> None:
    chosen = {name for candidate in candidates for name in candidate.settings}
    for name in given:
        if name in chosen:
            raise ValueError(f"{name} can't be given to all candidates: they choose it; say which with --candidates")


def _check_names(names: Sequence[str]) -> None:
    unfit = [name for name in names if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name)]
    if unfit:
        raise ValueError(f"candidates: {unfit[0]!r} can't be the name of a folder; use letters, digits and . _ + -")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"candidates: two are called {repeated[0]!r}")
    if len(names) < 2:
        raise ValueError(f"candidates: there is nothing to choose from with {len(names)}; give at least two")


def _read_file(path: Path) -> list[Candidate]:
    content = read_yaml(path)
    if not isinstance(content, dict) or not all(isinstance(settings, dict) for settings in content.values()):
        raise ValueError(f"{path}: expected lines like 'wide: {{kernel: rbf, bandwidth_multiple: 4}}'")
    return [
        Candidate(str(name), {str(setting): value for setting, value in settings.items()})
        for name, settings in content.items()
    ]
