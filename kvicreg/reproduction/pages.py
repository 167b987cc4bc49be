"""The parts of documentation pages that commands write: between two marks, and nothing else."""

from __future__ import annotations

from pathlib import Path

from kvicreg.storage import write_atomically

__all__ = ["fill", "section"]


def fill(page: Path, name: str, text: str) -> None:
    """Put `text` between the marks of that name on a page."""
    content = page.read_text(encoding="utf-8")
    before, after = _split(content, name, page)
    write_atomically(page, f"{before}{_begin(name)}\n\n{text.strip()}\n\n{_end(name)}{after}".encode())


def section(page: Path, name: str) -> str:
    """What stands between the marks of that name."""
    content = page.read_text(encoding="utf-8")
    before, after = _split(content, name, page)
    return content[len(before) + len(_begin(name)) : len(content) - len(after) - len(_end(name))].strip()


def _split(content: str, name: str, page: Path) -> tuple[str, str]:
    before, begun, rest = content.partition(_begin(name))
    _, ended, after = rest.partition(_end(name))
    if not (begun and ended):
        raise ValueError(f"{page} has no place for {name}: the lines {_begin(name)} and {_end(name)}")
    return before, after


def _begin(name: str) -> str:
    return f"<!-- {name}: written by kvicreg reproduce -->"


def _end(name: str) -> str:
    return f"<!-- end of {name} -->"
