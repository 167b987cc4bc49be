"""`import kvicreg` needs torch alone, and the folders import one way."""

import ast
import json
import re
import subprocess
import sys

import pytest
from source_tree import FILES, PACKAGE, ROOT, check_rule, name_of, parse

# What each folder may import of the others; what it may import brings what that may import.
# A module beside the folders (options.py) counts as a folder of its own.
MAY_IMPORT = {
    "checks": set(),
    "options": {"checks"},
    "storage": set(),
    "kernels": {"options"},
    "operators": {"kernels"},
    "losses": {"operators"},
    "models": {"options", "storage"},
    "data": {"options", "storage"},
    "methods": {"losses", "models"},
    "optimizers": {"options"},
    "measures": {"operators", "data"},
    "runs": {"methods", "data", "models", "optimizers"},
    "training": {"runs", "measures"},
    "evaluation": {"runs", "measures"},
    "explore": {"evaluation"},
    "sklearn": {"losses", "models", "data"},
    "selection": {"training", "evaluation"},
    "report": {"runs"},
    "benchmarks": {"training"},
    "cli": {"selection", "explore", "report", "benchmarks"},
    "__main__": {"cli"},
    "__init__": {"training"},  # on first use
}
# What the imports at the top of a folder's modules may need beside the standard library.
MAY_NEED = {
    "checks": set(),
    "options": set(),
    "storage": set(),
    "kernels": {"torch"},
    "operators": {"torch"},
    "losses": {"torch"},
    "models": {"torch"},
    "methods": {"torch"},
    "data": {"torch", "numpy", "PIL"},
}
CORE = ("kernels", "operators", "losses")

# What does not follow the table yet. Empty this list; never add to it.
STILL_TO_MOVE: set[str] = set()


def folder_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def allowed(folder):
    """All folders that this one may import, itself included."""
    return {folder}.union(*(allowed(name) for name in MAY_IMPORT[folder]))


def imports(path, nodes=ast.walk):
    """Every module that a file imports; those inside functions too, unless `nodes` leaves them out."""
    for node in nodes(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parent.parts
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            # "from kvicreg import kernels" imports kvicreg.kernels
            yield from (f"kvicreg.{alias.name}" for alias in node.names) if module == "kvicreg" else [module]


def test_folders_import_one_way():
    folders = {folder_of(path) for path in FILES}
    wrong = {f"kvicreg/{folder} is still to come" for folder in MAY_IMPORT if folder not in folders}
    for path in FILES:
        folder = folder_of(path)
        if folder not in MAY_IMPORT:
            wrong.add(f"kvicreg/{folder} has no place in the table")
            continue
        for module in imports(path):
            target = module.partition(".")[2].partition(".")[0]
            if module.startswith("kvicreg.") and target in folders and target not in allowed(folder):
                wrong.add(f"{name_of(path)} imports {target}")
    check_rule("imports that the table does not allow", wrong, STILL_TO_MOVE)


def test_training_and_evaluation_know_nothing_of_each_other():
    assert "evaluation" not in allowed("training")
    assert "training" not in allowed("evaluation")


def test_the_map_in_the_documents_is_this_table():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*) \|[^|]*\| ([^|]*) \|$", page.partition("## A batch")[0], flags=re.MULTILINE)
    drawn = {
        folder: set(re.findall(r"`(\w+)`", may_import))
        for folders, may_import in rows
        for folder in re.findall(r"`(\w+)(?:/|\.py)`", folders)
        if "everything" not in may_import
    }
    assert drawn == {folder: may for folder, may in MAY_IMPORT.items() if folder not in ("cli", "__main__", "__init__")}


def test_nothing_in_the_package_imports_the_experiments():
    assert not [name_of(path) for path in FILES if any(m.split(".")[0] == "experiments" for m in imports(path))]


def third_party(folder, nodes):
    may = {"kvicreg", *MAY_NEED[folder], *sys.stdlib_module_names}
    return [
        f"{name_of(path)} imports {module}"
        for path in FILES
        if folder_of(path) == folder
        for module in imports(path, nodes)
        if module.split(".")[0] not in may
    ]


@pytest.mark.parametrize("folder", MAY_NEED)
def test_what_a_folder_needs(folder):
    # elsewhere what more is needed (safetensors, timm, matplotlib) is imported in the functions that use it
    assert not third_party(folder, ast.walk if folder in CORE else lambda tree: tree.body)


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
    assert folders == {*CORE, "options", "checks"}


def test_the_command_line_answers_before_torch_is_loaded():
    code = "import sys; from kvicreg.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120).returncode == 0


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
