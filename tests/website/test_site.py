"""The site: formulae are drawn, the reference says what the code says, and a strict build finds what is broken."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="`make docs` installs what the site is built with")
pytest.importorskip("latex2mathml", reason="`make docs` installs what the site is built with")

from kvicreg.cli import COMMANDS
from kvicreg.options import readers
from kvicreg.runs import Settings
from website import formulas, reference

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("lambda_i", r"\lambda _{i}"),
        ("|x - y|_2^2", "|x - y|_{2}^{2}"),
        ("(1 + alpha)^(-alpha)", r"(1 + \alpha )^{-\alpha }"),
        ("sqrt(r) |C|_HS / tr C", r"\sqrt{r} |C|_{\text{HS}} / \text{tr}\;C"),
        ("<phi(x), phi(y)>", r"\langle \phi (x), \phi (y)\rangle "),
        ("[t - s]_+^2", "[t - s]_{+}^{2}"),
        ("sum_{j != k} C_jk", r"\sum _{j \ne  k}\;C_{jk}"),
        ("phi_bar_i", r"\bar{\phi }_{i}"),
        ("group_weight * z'_i", r"\text{group_weight} \cdot  z'_{i}"),
        ("W^-1/2", "W^{-1/2}"),
    ],
)
def test_a_formula_in_plain_text_becomes_latex(text, latex):
    assert formulas.latex(text) == latex


@pytest.mark.parametrize("text", ["(b, p)", "(D,)", 'spectrum="shared"', "--kernel rq", "RBF() + Linear()", "with"])
def test_shapes_and_code_stay_code(text):
    assert not formulas.is_formula(text)


def test_the_settings_page_has_every_setting_and_only_those():
    named = set(re.findall(r"^\| `(\w+)` \|", reference.settings_page(), flags=re.MULTILINE))
    assert named == set(readers(Settings))


def test_the_command_page_has_every_command_with_an_example():
    sections = dict(re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", reference.command_page(), flags=re.DOTALL | re.M))
    assert list(sections) == list(COMMANDS)
    assert all(f"kvicreg {name}" in text.partition("xample")[2] for name, text in sections.items())


def test_a_public_name_without_a_docstring_is_refused(monkeypatch):
    monkeypatch.setattr(reference, "public_names", lambda: {"kvicreg.options": ["T"]})
    with pytest.raises(ValueError, match="without a docstring: kvicreg.options.T"):
        list(reference.api_pages())


def build(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=500)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_public_name_is_on_the_site(site):
    for part, names in reference.public_names().items():
        page = (site / "reference" / f"{part}.html").read_text()
        mark = "{}</code>" if part == "kvicreg" else f'id="{part}.{{}}"'
        assert [name for name in names if mark.format(name) not in page] == []


def test_pages_have_formulae_and_fetch_nothing_from_elsewhere(site):
    assert "<math" in (site / "reference" / "kvicreg.losses.html").read_text()
    for path in site.rglob("*.html"):
        fetched = re.findall(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="?(https?://[^"\s>]+)', path.read_text())
        assert fetched == [], path.name


def test_a_broken_link_fails_the_build(tmp_path):
    shutil.copytree(ROOT / "website", tmp_path / "website")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[gone](gone.md)\n")
    settings = re.split(r"^(?:nav|hooks):", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(f"{settings[0]}\nuse{settings[1].partition(chr(10) + 'use')[2]}")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert "gone.md" in done.stdout + done.stderr
