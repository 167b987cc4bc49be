"""The package's source, and how a list of what is still to be mended shrinks until it is empty."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kvicreg"
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """A file's path from the root, the same on every system."""
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def check_rule(rule: str, violations: Mapping[str, object] | Iterable[str], still_allowed: Iterable[str] = ()) -> None:
    """Nothing breaks the rule but what is listed, and nothing is listed that has been mended."""
    details = violations if isinstance(violations, Mapping) else dict.fromkeys(violations)
    new = [key if value is None else f"{key}: {value}" for key, value in details.items() if key not in still_allowed]
    mended = [key for key in still_allowed if key not in details]
    assert not new, "\n".join([f"{rule}:", *sorted(new)])
    assert not mended, "\n".join(["mended, so take it off the list:", *sorted(mended)])
