"""The package's source, and how a list of what is still to be mended shrinks until it is empty."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kvicreg"
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """A file's path from the root, the same on every system."""
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def check_rule(rule: str, violations: Iterable[str], still_allowed: Iterable[str] = ()) -> None:
    """Nothing breaks the rule but what is listed, and nothing is listed that has been mended."""
    violations, still_allowed = set(violations), set(still_allowed)
    new, mended = sorted(violations - still_allowed), sorted(still_allowed - violations)
    assert not new, f"{rule}:\n" + "\n".join(new)
    assert not mended, "mended, so take it off the list:\n" + "\n".join(mended)
