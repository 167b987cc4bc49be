"""What mkdocs does beyond its settings: generated pages join the others, and links out of docs/ stay on the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # mkdocs loads this file by its path

from website import reference  # noqa: E402

ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation gets a page for each part of the package, where mkdocs.yml has "API: []"."""
    parts = [{part: f"reference/{part}.md"} for part in reference.public_names()]
    config.nav = _filled(config.nav, {"API": parts})
    return config


def _filled(nav: Any, lists: dict[str, list[Any]]) -> Any:
    if isinstance(nav, list):
        return [_filled(item, lists) for item in nav]
    if isinstance(nav, dict):
        return {key: lists[key] if key in lists else _filled(item, lists) for key, item in nav.items()}
    return nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is written from the code, and the pages that live at the root of the repository."""
    pages = {
        **dict(reference.api_pages()),
        "reference/command-line.md": reference.command_page(),
        "reference/settings.md": reference.settings_page(),
        "reference/files.md": reference.file_page(),
    }
    pages |= {page: (ROOT / name).read_text(encoding="utf-8") for name, page in ROOT_PAGES.items()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between docs/ and the root of the repository lead to the same pages here."""
    for name, target in ROOT_PAGES.items():
        markdown = re.sub(rf"\]\((?:\.\./)?{re.escape(name)}", f"]({target}", markdown)
    if page.file.src_uri in ROOT_PAGES.values():
        markdown = re.sub(r"\]\(docs/", "](", markdown)
    return markdown
