"""What losses in a feature space share: the check of their approximation, and unit vectors."""

from __future__ import annotations

from kvicreg.kernels.cosine import unit_rows
from kvicreg.operators import Approximation

__all__ = ["check_approximation", "unit_rows"]


def check_approximation(approximation: object) -> None:
    """Refuse what is neither None nor an approximation."""
    if approximation is not None and not isinstance(approximation, Approximation):
        raise TypeError(
            "approximation must be None, operators.Nystrom(...) or operators.RandomFourier(...), "
            f"got {type(approximation).__name__}"
        )
