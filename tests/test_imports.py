"""`import kvicreg` needs torch alone, and the folders import one way."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "kvicreg"

# What each folder may import of the others; what it may import brings what that may import.
MAY_IMPORT = {
    "kernels": set(),
    "operators": {"kernels"},
    "losses": {"operators"},
    "models": set(),
    "data": set(),
    "methods": {"losses", "models"},
    "evaluation": {"models", "data", "operators"},
    "training": {"methods", "data", "evaluation"},
    "selection": {"training", "evaluation"},
    "benchmarks": {"selection"},
    "report": set(),
}
CORE = ("kernels", "operators", "losses")


def allowed(folder):
    """All folders that this one may import, itself included."""
    found, todo = {folder}, [*MAY_IMPORT[folder]]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += MAY_IMPORT[name]
    return found


def imports(path, nodes=ast.walk):
    """(line, module) of every import in a file; those inside functions too, unless `nodes` leaves them out."""
    for node in nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(PACKAGE.parent).parent.parts
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield node.lineno, module
            if module == "kvicreg":  # from kvicreg import kernels
                yield from ((node.lineno, f"kvicreg.{alias.name}") for alias in node.names)


FILES = sorted(PACKAGE.glob("*/**/*.py"))


def test_every_folder_is_in_the_table():
    folders = {path.relative_to(PACKAGE).parts[0] for path in FILES}
    assert folders <= set(MAY_IMPORT)
    assert set(CORE) <= folders


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_folders_import_one_way(folder):
    may = allowed(folder)
    wrong = [
        f"{path.relative_to(PACKAGE.parent)}:{line} imports {module}"
        for path in FILES
        if path.relative_to(PACKAGE).parts[0] == folder
        for line, module in imports(path)
        if module.startswith("kvicreg.") and module.split(".")[1] in MAY_IMPORT and module.split(".")[1] not in may
    ]
    assert not wrong, f"{folder} may import {sorted(may)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("folder", [*MAY_IMPORT])
def test_nothing_below_the_command_line_imports_it(folder):
    wrong = [
        f"{path.relative_to(PACKAGE.parent)}:{line}"
        for path in FILES
        if path.relative_to(PACKAGE).parts[0] == folder
        for line, module in imports(path)
        if module in ("kvicreg.cli", "kvicreg.__main__")
    ]
    assert not wrong


def third_party(folder, nodes):
    may = {"torch", "kvicreg", *sys.stdlib_module_names}
    return [
        f"{path.relative_to(PACKAGE.parent)}:{line} imports {module}"
        for path in FILES
        if path.relative_to(PACKAGE).parts[0] == folder
        for line, module in imports(path, nodes)
        if module.split(".")[0] not in may
    ]


@pytest.mark.parametrize("folder", CORE)
def test_the_core_imports_torch_and_the_standard_library(folder):
    assert not third_party(folder, ast.walk)


def test_models_need_torch_alone_until_something_else_is_asked_of_them():
    # safetensors to store an encoder, timm or torchvision to bring one: inside the functions that use them
    assert not third_party("models", lambda tree: tree.body)


@pytest.fixture(scope="module")
def loaded():
    """The modules that `import kvicreg` and the use of a loss load after torch is there."""
    code = (
        "import json, sys, torch; before = set(sys.modules); import kvicreg\n"
        "kvicreg.KernelVICRegLoss('rq')(torch.randn(4, 2), torch.randn(4, 2))\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


def test_importing_kvicreg_loads_nothing_beyond_what_torch_loads(loaded):
    packages = {module.split(".")[0] for module in loaded}
    assert packages - set(sys.stdlib_module_names) - {"torch"} == {"kvicreg"}


def test_importing_kvicreg_imports_only_the_core(loaded):
    folders = {module.split(".")[1] for module in loaded if module.startswith("kvicreg.")}
    assert folders == {*CORE, "options"}


def test_an_unknown_name_is_an_attribute_error():
    import kvicreg

    with pytest.raises(AttributeError, match="module 'kvicreg' has no attribute 'nothing'"):
        kvicreg.nothing  # noqa: B018


def test_every_public_name_is_there():
    import kvicreg

    for name in kvicreg.__all__:
        assert getattr(kvicreg, name) is not None


def test_a_missing_extra_is_named():
    code = (
        "import sys; sys.modules['safetensors'] = None; sys.modules['lightning'] = None\n"
        "import kvicreg\n"
        "try: kvicreg.train\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert "pip install 'kvicreg[train]'" in done.stdout, done.stdout + done.stderr
