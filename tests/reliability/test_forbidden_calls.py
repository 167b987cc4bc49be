"""Nothing in the package can run what somebody else's file says: every call of every module is looked at."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "kvicreg"
FILES = sorted(PACKAGE.rglob("*.py"))
NEVER = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load", "pickle.loads", "marshal.loads",
    "yaml.load", "yaml.unsafe_load", "yaml.full_load", "joblib.load", "torch.hub.load", "tempfile.mktemp",
    "shelve.open", "pandas.read_pickle", "ssl._create_unverified_context", "urllib.request.urlretrieve",
}  # fmt: skip
NEVER_METHODS = {"extractall", "unpack_archive"}
NEEDS = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
}


def name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return f"{name_of(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def faults(source: str) -> list[str]:
    faulty = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            faulty += [f"{node.lineno}: imports {m}" for m in modules if m in ("pickle", "marshal", "shelve", "dill")]
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if text.startswith("http://") and not text.startswith("http://127.0.0.1:"):
            faulty.append(f"{node.lineno}: an address without TLS")
        if not isinstance(node, ast.Call):
            continue
        name = name_of(node.func)
        given = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
        if name in NEVER or name.rpartition(".")[2] in NEVER_METHODS:
            faulty.append(f"{node.lineno}: calls {name}")
        if name in NEEDS and given.get(NEEDS[name][0]) is not NEEDS[name][1]:
            faulty.append(f"{node.lineno}: {name} without {NEEDS[name][0]}={NEEDS[name][1]}")
        if given.get("shell") is True or given.get("verify") is False or given.get("trust_repo") is True:
            faulty.append(f"{node.lineno}: {name} with a dangerous flag")
    return faulty


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_calls_what_could_run_somebody_elses_file(path):
    assert not faults(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "code",
    ["import pickle", "torch.load(p)", "np.load(p, allow_pickle=True)", "yaml.load(f, L)", "eval(text)",
     "tar.extractall(p)", "subprocess.run(c, shell=True)", "url = 'http://a.example/x'",
     "torch.load(p, weights_only=False)"],
)  # fmt: skip
def test_the_search_finds_each_kind(code):
    assert faults(code)
