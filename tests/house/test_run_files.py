"""Only `kvicreg/runs/` knows the names of the files in a run; all others ask a `RunFolder`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_tree import FILES, PACKAGE, ROOT, check_rule, name_of, parse

FILE_NAMES = (
    "best.ckpt",
    "config.yaml",
    "demo.json",
    "encoder.json",
    "encoder.onnx",
    "encoder.pt2",
    "encoder.safetensors",
    "fault.npz",
    "fault-",
    "last.ckpt",
    "map.npz",
    "metrics.csv",
    "projector.safetensors",
    "replay.json",
    "report.html",
    "results.json",
    "results-on-",
    "scores.npz",
    "spectrum.npz",
    "unreadable.txt",
)
FOLDER_NAMES = ("checkpoints", "evaluation", "figures")  # words too: names only where a path is put together
PATTERN = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, FILE_NAMES))})")

# Files that still spell the name of a file in a run. Empty this list; never add to it.
STILL_SPELT = {
    "experiments/common/cells.py",
    "experiments/common/experiment.py",
    "experiments/fairness.py",
    "experiments/pictures.py",
    "kvicreg/cli/replay.py",
}


def texts(tree: ast.Module) -> Iterator[str]:
    """Every string that a module makes: not its docstrings, and not the help of its settings, which are for people."""
    for_people = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("option", "choice"):
            for_people |= {id(part) for argument in node.args[1:] for part in ast.walk(argument)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in for_people:
            yield node.value


def spelt(tree: ast.Module) -> set[str]:
    """The names of a run's files and folders in a module's strings."""
    names = {name for text in texts(tree) for name in PATTERN.findall(text)}
    joined = [node.right for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)]
    return names | {part.value for part in joined if isinstance(part, ast.Constant) and part.value in FOLDER_NAMES}


def test_names_are_seen_in_strings_and_not_in_docstrings_and_help():
    source = (
        '"""A run has config.yaml."""\n'
        "class A:\n    def f(self):\n        '''Reads metrics.csv.'''\n"
        "steps = option(3, 'Steps between two writes of last.ckpt.')\n"
        "a = folder / 'checkpoints' / f'results-on-{data}.json'\n"
        "b = f'see {folder}/report.html'; c = 'checkpoints'; d = 'my-config.yaml'; e = 'default-'\n"
    )
    assert spelt(ast.parse(source)) == {"checkpoints", "results-on-", "report.html"}


def test_nothing_outside_runs_names_a_file_of_a_run():
    outside = [path for path in FILES if PACKAGE / "runs" not in path.parents] + [*ROOT.glob("experiments/**/*.py")]
    wrong = {name_of(path): ", ".join(sorted(names)) for path in outside if (names := spelt(parse(path)))}
    check_rule("names of a run's files outside kvicreg/runs/", wrong, STILL_SPELT)
