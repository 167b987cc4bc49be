"""Run a suite at any size and write its result file.

    python -m tests.reliability.run faults --count 50 --out docs/results/reliability/faults.json
    python -m tests.reliability.run fuzz --count 5000
    python -m tests.reliability.run guided --count 1000000
    python -m tests.reliability.run numbers --count 1000000
    python -m tests.reliability.run processes --count 4
    python -m tests.reliability.run load --count 200000

The exit code is 0 when nothing failed. `make nightly` runs them all; the tests beside this file run them small.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # forked processes must not share a pool of threads
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "reliability"
COUNTS = {"faults": 50, "fuzz": 5000, "guided": 1_000_000, "numbers": 1_000_000, "processes": 4, "load": 200_000}


def failures_of(suite: str, result: dict[str, Any]) -> int:
    """How much of a result is not as it should be."""
    if suite == "faults":
        return sum(part["tried"] - part["survived"] for part in result.values())
    if suite == "numbers":
        return int(result["not_finite"]) + int(result["eigensolves_that_stopped"])
    return int(result["failures"])


def run(suite: str, count: int, seed: int) -> dict[str, Any]:
    """Run a suite; the content of its result file."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start = time.time()
    result = import_module(f"tests.reliability.{suite}").run(count, seed)
    from kvicreg import __version__

    versions = {"kvicreg": __version__, "torch": torch.__version__, "python": platform.python_version()}
    command = f"python -m tests.reliability.run {suite} --count {count} --seed {seed}"
    minutes = round((time.time() - start) / 60, 1)
    return {"suite": suite, "command": command, "minutes": minutes, "versions": versions, **result}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=list(COUNTS))
    parser.add_argument("--count", type=int, help="kills, cases, batches, faults or images; by default the nightly's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file to write; by default docs/results/reliability/SUITE.json")
    given = parser.parse_args(argv)
    out = given.out or RESULTS / f"{given.suite}.json"
    result = run(given.suite, given.count or COUNTS[given.suite], given.seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n")
    parts = [name for name in ("kills", "full_disks", "read_only") if name in result]
    failed = failures_of(given.suite, {name: result[name] for name in parts} if parts else result)
    print(f"{given.suite}: {failed} failures: {out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
