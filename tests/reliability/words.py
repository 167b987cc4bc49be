"""Bad settings: in YAML, and as the words of a command line."""

from __future__ import annotations

import random
from pathlib import Path

from kvicreg.cli import COMMANDS
from kvicreg.data import catalogue
from kvicreg.options import readers
from kvicreg.runs import Settings
from tests.reliability.damage import spoil

SMALL = [
    "--width=0.25", "--pool=1", "--projector-hidden=8", "--projector-outputs=8", "--projector-layers=2",
    "--batch-size=8", "--spectrum-images=8", "--probe-images=8", "--accelerator=cpu", "--workers=0",
]  # fmt: skip

VALUES = (
    "0", "-1", "1", "2", "8", "1e-3", "1e400", ".nan", ".inf", "-.inf", "null", "true", "[]", "{}", "[1, [2]]", "rbf",
    "''", "!!python/object/apply:os.system [id]", "!!binary abc", "*x", "&x 1", "1:2:3", "0x7fffffffffffffff",
    "99999999999999999999", "1970-01-01", "~", '"\\0"', "{a: 1}", "a: b", "- 1", "\t", "'", "linear", "sgd", "0.5",
)  # fmt: skip

WORDS = (
    "", "-", "--", "-1", "0", "1e999", "nan", "x" * 3000, "é\u202e", "a b", "--help=1", "[", "{}", "None", "true",
    "../..", "/dev/null", "/dev/zero", "/proc/self/mem", ".", "mnist-small", "\n", "%s", "$HOME", "1,2",
    "99999999999999999999",
)  # fmt: skip
FLAGS = (
    "--out", "--seed", "--split", "--images", "--data", "--kernel", "--epochs", "--resume", "--config", "--device",
    "--batch-size", "--blur", "--views", "--image-size", "--root", "--format", "--on", "--groups", "--help",
    "--kernl", "--projector", "--width", "--precision", "--strategy", "--devices", "--queue", "--gamma", "--degree",
)  # fmt: skip


def recipes(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """YAML with keys of a recipe and values of any kind."""
    keys = [*readers(Settings), "epocs", "<<", "", "1", "? x", "__class__"]
    lines = [f"{chance.choice(keys)}: {chance.choice(VALUES)}" for _ in range(chance.choice((1, 1, 2, 4)))]
    if chance.random() < 0.1:  # aliases that grow, and depth
        levels = chance.choice((8, 30))
        lines = [f"a0: &a0 {{k: {'[' * chance.choice((1, 2000))}"] if chance.random() < 0.3 else ["a0: &a0 {k: 1}"]
        lines += [f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}], k{k}: [*a{k - 1}, *a{k - 1}]}}" for k in range(1, levels)]
    text = "\n".join(lines).encode()
    (folder / "recipe.yaml").write_bytes(spoil(chance, text) if chance.random() < 0.3 else text)
    return ["train", "--config=recipe.yaml", *SMALL, "--data", str(base / "images"), "--image-size=16", "--dry-run"]


def flags(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """Commands with flags of their own and of others, and any words as values."""
    quick = [name for name in COMMANDS if not name.startswith(("bench", "demo", "select"))]
    name = chance.choice(quick) if chance.random() < 0.95 else chance.choice(WORDS)
    words = name.split(" ") if name in COMMANDS else [name]
    for _ in range(chance.randrange(4)):
        words.append(chance.choice(WORDS))
        if chance.random() < 0.7:
            words[-1:] = [chance.choice(FLAGS), chance.choice(WORDS)]
    # nothing may be fetched, and a training that is understood is only estimated
    words = [word for word in words if word not in catalogue.DATA_SETS or word == "mnist-small"]
    return words + (["--dry-run", *SMALL] if words[0] == "train" and "--resume" not in words else [])
