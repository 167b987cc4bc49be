"""What keeps the source easy to read: short modules, short functions, plain words, types without exceptions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_tree import FILES, PACKAGE, check_rule, name_of, parse

CORE = [path for path in FILES if path.relative_to(PACKAGE).parts[0] in ("kernels", "operators", "losses")]
PRIVATE_WORDS = {"aim", "asked", "enough", "found", "held", "kept", "known", "own", "said", "spread", "told"}

# What breaks a rule today. Empty these lists; never add to them.
STILL_TOO_LONG_MODULES: set[str] = set()
STILL_IGNORED_OVERRIDES: set[str] = set()
STILL_PRIVATE_WORDS: set[str] = set()


def test_no_module_is_longer_than_350_lines():
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    check_rule("more than 350 lines", {k: n for k, n in lines.items() if n > 350}, STILL_TOO_LONG_MODULES)


def test_no_function_of_the_core_is_longer_than_a_screen():
    long = {
        f"{name_of(path)}: {function.name}": body_lines(function)
        for path in CORE
        for function in functions(parse(path))
        if body_lines(function) > 40
    }
    check_rule("more than 40 lines", long)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def body_lines(function: ast.FunctionDef) -> int:
    """Lines of a function's body, without its signature and its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_the_length_of_a_function_leaves_out_its_signature_and_its_docstring():
    (function,) = functions(
        ast.parse('def f(\n    a,\n    b,\n):\n    """One.\n\n    Two.\n    """\n    a += 1\n\n    return b')
    )
    assert body_lines(function) == 3


def test_no_override_is_ignored():
    pattern = re.compile(r"type: ignore\[[^\]]*\boverride\b|type: ignore(?!\[)")
    wrong = {name_of(path) for path in FILES if pattern.search(path.read_text(encoding="utf-8"))}
    check_rule("type: ignore[override], or an ignore that does not say what", wrong, STILL_IGNORED_OVERRIDES)


def test_variables_say_what_they_hold():
    wrong = {name_of(path): ", ".join(sorted(words)) for path in FILES if (words := names(parse(path)) & PRIVATE_WORDS)}
    check_rule("variables that do not say what they hold", wrong, STILL_PRIVATE_WORDS)


def names(tree: ast.Module) -> set[str]:
    """Every name that a module assigns: variables, attributes, arguments and fields."""
    variables = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    return variables | attributes | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}


def test_names_are_seen_wherever_they_are_assigned():
    source = "a = 1\nb: int = 2\nself.c = 3\nfor d in x: pass\nwith x as e: pass\n"
    source += "def f(g, *, h): return (i := [j for j in x])"
    assert names(ast.parse(source)) == set("abcdeghij")
