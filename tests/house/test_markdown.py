"""The pages hold together: links lead somewhere, and their Python code names things that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from source_tree import ROOT, name_of

PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob(".github/*.md"))]
CODE = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    wrong = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://", "mailto:", "reference/")):  # the site's build has the reference
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(link)
    assert not wrong


def blocks():
    """The Python code of every page; the samples in CONTRIBUTING.md have a test of their own."""
    for page in (page for page in PAGES if page.name != "CONTRIBUTING.md"):
        text = page.read_text(encoding="utf-8")
        for block in CODE.finditer(text):
            if block[1] == "python":
                yield pytest.param(block[2], id=f"{name_of(page)}:{text.count(chr(10), 0, block.start()) + 1}")


@pytest.mark.parametrize("code", [*blocks()])
def test_code_names_things_that_exist(code):
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in nodes:
        statement = ast.unparse(node)
        if "kvicreg" in statement:
            exec(statement, {})
