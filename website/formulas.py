"""Formulae between double backticks, as docstrings have them, become MathML: browsers draw it without script or font.

In a terminal ``mean_i |phi(z_i) - phi(z'_i)|^2`` reads well as it stands, so that is how it is written; here it is
translated to LaTeX, and latex2mathml does the rest. Shapes such as ``(b, p)`` and code stay code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

__all__ = ["Formulas", "is_formula", "latex", "makeExtension"]

GREEK = {"alpha", "beta", "gamma", "delta", "zeta", "lambda", "mu", "sigma", "phi", "Phi", "pi", "epsilon"}
FUNCTIONS = {"exp", "log", "cos", "sin", "max", "min", "sum", "prod", "sqrt"}
SIGNS = {
    "!=": r"\ne ", ">=": r"\ge ", "<=": r"\le ", "<-": r"\leftarrow ", "~": r"\sim ", "*": r"\cdot ", " . ": r" \cdot ",
    ".": r"\cdot ", "{": r"\{", "}": r"\}", "...": r"\ldots ", "%": r"\%",
}  # fmt: skip
OPERATORS = "+-=*/<>!~.,|"
TOKEN = re.compile(r"\s\.\s|\s+|\.\.\.|[!<>]=|<-|\d+(?:\.\d+)?|[A-Za-z]+\d*(?:_[A-Za-z]{3,}\d*)*'*|.")
CODE = re.compile(r'["=]\w*"|--\w|\(\)|^\([^()]*,[^()]*\)$|^[a-z]{3,}$|^class |\w:\w|^[A-Z]{3,}/|^offset|^pip ')


def is_formula(text: str) -> bool:
    """Whether text between double backticks is to be drawn as a formula, not shown as code."""
    return CODE.search(text) is None


def latex(text: str) -> str:
    """The LaTeX of a formula in plain text.

    >>> latex("exp(-gamma |x - y|_2^2)")
    '\\\\exp (-\\\\gamma  |x - y|_{2}^{2})'
    """
    text = re.sub(r"<(\w[^<>]*)>", r"⟨\1⟩", text)  # an inner product, not a comparison
    return "".join(_translated(TOKEN.findall(text))).replace("⟨", r"\langle ").replace("⟩", r"\rangle ")


def _translated(tokens: list[str]) -> Iterator[str]:
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token in "_^" and place + 1 < len(tokens):
            argument, place = _argument(tokens, place + 1)
            yield f"{token}{{{argument}}}"
            continue
        if token == "sqrt" and tokens[place + 1 : place + 2] == ["("]:
            inner, place = _group(tokens, place + 1)
            yield rf"\sqrt{{{inner}}}"
            continue
        place += 1
        if token.isspace():
            beside = tokens[place - 2 : place - 1] + tokens[place : place + 1]
            joins = any(side and side[0] in OPERATORS for side in beside)  # they bring their own space
            yield r"\quad " if len(token) > 1 else " " if joins else r"\;"
        elif token[0].isalpha():
            yield _word(token)
        else:
            yield SIGNS.get(token, token)


def _word(word: str) -> str:
    name = word.rstrip("'")
    primes = word[len(name) :]
    if name.endswith("_bar"):
        return rf"\bar{{{_word(name.removesuffix('_bar'))}}}{primes}"
    if name in GREEK or name in FUNCTIONS:
        return f"\\{name} {primes}"
    if name == "eps":
        return rf"\varepsilon {primes}"
    if numbered := re.fullmatch(r"([A-Za-z])(\d)", name):
        return f"{numbered[1]}_{{{numbered[2]}}}{primes}"
    if len(name) == 1 or re.fullmatch(r"[HK]{2,3}", name):
        return name + primes
    return rf"\text{{{name}}}{primes}"


def _argument(tokens: list[str], place: int) -> tuple[str, int]:
    """What a subscript or an exponent takes: a group, or a word or number with its sign."""
    if tokens[place] in "({":
        return _group(tokens, place)
    sign = ""
    if tokens[place] in "+-":
        sign, place = tokens[place], place + 1
        if place >= len(tokens) or not tokens[place][0].isalnum():
            return sign, place
    word = tokens[place]
    if tokens[place + 1 : place + 3] == ["/", "2"]:  # W^-1/2
        return f"{sign}{word}/2", place + 3
    indices = word.isalpha() and word.islower() and len(word) <= 2
    return sign + (word if indices else _word(word)), place + 1


def _group(tokens: list[str], place: int) -> tuple[str, int]:
    """What stands between a bracket and its partner, and the place behind that."""
    depth, start = 0, place
    for place in range(start, len(tokens)):
        depth += (tokens[place] in "({") - (tokens[place] in ")}")
        if depth == 0:
            break
    return "".join(_translated(tokens[start + 1 : place])), place + 1


class _Formula(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Any, int | None, int | None]:
        text = re.sub(r"\n\s*", " ", m[2].strip()).replace(r"\|", "|")  # as tables on GitHub need it
        if not is_formula(text):
            element = ElementTree.Element("code")
            element.text = text
            return element, m.start(), m.end()
        is_alone = data.strip().rstrip(".:,") == m[0]
        drawn = convert(latex(text), display="block" if is_alone else "inline")
        return self.md.htmlStash.store(drawn), m.start(), len(data) if is_alone else m.end()


class Formulas(Extension):
    """The Markdown extension; before the one that makes code of backticks."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_Formula(r"(?<!`)(``)(?!`)(.+?)(?<!`)``(?!`)", md), "formulas", 195)


def makeExtension(**options: Any) -> Formulas:  # the name that Markdown looks for
    return Formulas(**options)
