"""Is this fit to be released? Builds and checks sdist and wheel, then tries the README from the wheel elsewhere.

python packaging/check_release.py            # all of it: some minutes, and some hundred megabytes to install
python packaging/check_release.py --quick    # without the installation
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PHOTOS = """
import numpy as np
from pathlib import Path
from PIL import Image
Path("photos").mkdir()
for i in range(64):
    pixels = np.random.default_rng(i).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((64, 64)).save(f"photos/{i}.jpg")
"""


def run(*command: object, cwd: Path = ROOT) -> None:
    words = [str(word) for word in command]
    print("$", " ".join(words), flush=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env={**environment, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}: not fit to be released")


def blocks(language: str) -> list[str]:
    """The README's code in a language."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """The README's commands, without their comments and without the installation."""
    lines = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith("kvicreg ")]


def build() -> Path:
    """Build both, check them, and give the wheel."""
    for old in DIST.glob("kvicreg-*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST)
    files = sorted(DIST.glob("kvicreg-*"))
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    (wheel,) = DIST.glob("kvicreg-*.whl")
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    for path in files:
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    return wheel


def try_readme(wheel: Path, folder: Path) -> None:
    """Install the wheel into an empty environment, and do there what the README shows."""
    run(sys.executable, "-m", "venv", folder / "empty")
    python = folder / "empty" / "bin" / "python"
    extras = "train,eval,sklearn"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", f"{wheel}[{extras}]", cwd=folder)
    work = folder / "work"
    work.mkdir()
    run(python, "-c", PHOTOS, cwd=work)
    for number, block in enumerate(blocks("python")):
        (work / f"snippet{number}.py").write_text(block, encoding="utf-8")
        run(python, f"snippet{number}.py", cwd=work)
    for line in commands():
        run(python.with_name("kvicreg"), *line.split()[1:], cwd=work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="build and check, without trying the wheel")
    quick = parser.parse_args().quick
    if shutil.which("hadolint", path=str(Path(sys.executable).parent)):
        run(Path(sys.executable).parent / "hadolint", ROOT / "packaging" / "Dockerfile")
    wheel = build()
    if not quick:
        with tempfile.TemporaryDirectory() as folder:
            try_readme(wheel, Path(folder))
    print(f"Fit to be released: {wheel}")


if __name__ == "__main__":
    main()
