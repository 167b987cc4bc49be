"""docs/mutants.md out of the result files: `python -m tests.mutants.document` writes it."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from kvicreg.benchmarks.measure import code_hash
from tests.mutants.run import EQUIVALENT, RESULTS, ROOT, TESTS

PAGE = ROOT / "docs" / "mutants.md"
TARGETS = {folder: 95 if folder in ("kernels", "operators", "losses") else 85 for folder in TESTS}
HEAD = """# Mutants

Would the tests notice a mistake? [mutmut](https://mutmut.readthedocs.io) puts small faults into the package, one at a
time: `+` becomes `-`, `<` becomes `<=`, a number grows by one, an argument is left out, a condition always holds. A
fault is *killed* when a test fails. `make mutants` tries every fault that has no verdict yet and rewrites this page; it
can be stopped at any time and goes on where it was (`make mutants FOLDERS="kernels --count 200"` draws some of one
folder's at random).
"""
FOOT = """
*Tried* faults are drawn at random. *At first* is the share of them that the tests killed when they were drawn: within
its 95 % interval (Wilson's) it holds for all faults, as the tests were then. Those that survived got tests where they
could matter, and were tried again: *now* is about the tried ones alone. *Equivalent* ones change nothing that anyone
could see, and do not count; `tests/mutants/equivalent.json` has the reason for each. Not put to the test: the wording
of messages, and defaults in class bodies, which mutmut does not change and `tests/losses/test_defaults.py` states.
Each folder's faults meet the tests that `tests/mutants/run.py` names for it, without those of many seconds and those
that start other processes or compile. All draws but that of methods are later ones, after tests for the survivors of
the draws before. What survived in evaluation and operators also met the tests left out before it was counted.

## Survivors

`mutmut show NAME` in `.mutants/FOLDER` shows one.

"""


def document(results: list[dict[str, Any]], equivalent: dict[str, str]) -> str:
    """The page of these results."""
    lines = [
        "| folder | faults | tried | equivalent | killed at first | interval | killed now | wanted | code |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    survivors = []
    for result in sorted(results, key=lambda result: list(TESTS).index(result["folder"])):
        folder = result["folder"]
        same = [name for name in result["survived"] if name in equivalent]
        tried, now = result["tried"] - len(same), result["killed"]
        first = tried - len({*result["survived_at_first"]} - {*same})
        low, high = wilson(first, tried) if tried < result["mutants"] else (first / tried, first / tried)
        code = result["code"] + ("" if result["code"] == code_hash(folder) else " (older than the code)")
        lines.append(
            f"| {folder} | {result['mutants']:,} | {result['tried']:,} | {len(same)} | {first:,}, {first / tried:.1%} "
            f"| {low:.1%} to {high:.1%} | {now:,}, {now / tried:.1%} | {TARGETS[folder]} % | {code} |"
        )
        survivors += [f"- `{name}`" for name in result["survived"] if name not in equivalent]
    listed = "\n".join(survivors) if survivors else "None."
    return f"{HEAD}\n" + "\n".join(lines) + f"\n{FOOT}{listed}\n"


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z = 1.96
    share, weight = successes / trials, 1 + z**2 / trials
    middle = (share + z**2 / (2 * trials)) / weight
    half = z / weight * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    return middle - half, middle + half


def main() -> int:
    results = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    PAGE.write_text(document(results, json.loads(EQUIVALENT.read_text())))
    print(f"Page: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
