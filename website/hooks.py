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

from website import notebooks, reference  # noqa: E402

ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Reference gets a page for each part of the package, and Guides whatever lies in docs/ and is not named."""
    named = re.findall(r"[\w-]+\.md", str(config.nav))
    for section in config.nav or ():
        if "Guides" in section:
            section["Guides"] += [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in named]
        if "Reference" in section:
            section["Reference"].insert(
                0, {"API": [{part: f"reference/{part}.md"} for part in reference.public_names()]}
            )
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is written from the code, and the pages that live at the root of the repository."""
    pages = {
        **dict(reference.api_pages()),
        "reference/command-line.md": reference.command_page(),
        "reference/settings.md": reference.settings_page(),
        "reference/files.md": reference.file_page(),
    }
    pages |= {f"notebooks/{path.stem}.ipynb": notebooks.ipynb(path.read_text("utf-8")) for path in notebooks.SCRIPTS}
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
