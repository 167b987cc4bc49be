"""Bytes that a fuzzer makes up by watching which lines they reach (atheris), through the readers of foreign files.

Right is a value or a sentence; any other exception ends the fuzzer, which leaves the bytes behind. It needs atheris,
which has no wheels for some systems and is not a dependency: `pip install -c constraints.txt atheris`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def run(count: int, seed: int) -> dict[str, Any]:
    """`count` inputs in a process of its own, which the fuzzer ends; the result file's content."""
    if find_spec("atheris") is None:
        raise SystemExit("atheris is not installed: pip install -c constraints.txt atheris")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.reliability.guided", f"-runs={count}", f"-seed={seed or 1}"]
        limits = ["-max_len=400", "-timeout=20", "-rss_limit_mb=2000", f"-artifact_prefix={folder}/"]
        ran = subprocess.run([*command, *limits], capture_output=True, text=True, check=False)
        left = [path.read_bytes().hex() for path in Path(folder).iterdir()]
    done = re.search(r"Done (\d+) runs", ran.stderr)
    failed = [] if done and ran.returncode == 0 else [ran.stderr[-2000:]]
    return {"inputs": int(done[1]) if done else 0, "failures": len(failed), "failed": failed, "bytes": left}


def fuzz() -> None:
    import atheris

    with atheris.instrument_imports(include=["kvicreg"]):
        from kvicreg.data.formats import read_idx
        from kvicreg.data.sources.lists import list_file
        from kvicreg.runs import load_settings
        from kvicreg.storage import read_arrays

    readers = (read_idx, load_settings, read_arrays, list_file)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"

        def one(content: bytes) -> None:
            path.unlink(missing_ok=True)  # some file systems wait for the disk when a file is written over
            path.write_bytes(content[1:])
            try:
                readers[content[0] % len(readers) if content else 0](path)
            except (ValueError, OSError) as error:
                if not str(error):  # no sentence
                    raise

        atheris.Setup(sys.argv, one)
        atheris.Fuzz()


if __name__ == "__main__":
    fuzz()
