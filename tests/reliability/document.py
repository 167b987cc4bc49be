"""docs/reliability.md out of the result files: `python -m tests.reliability.document` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.reliability.run import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
HEAD = """# Reliability

    make nightly      # runs all of this anew at full size, and rewrites this page

What was done to kvicreg on purpose, and what came of it. Numbers are from the files in `results/reliability/` that the
commands wrote; `make test` runs the same code at a small size. Hostile files and pages: [SECURITY.md](../SECURITY.md).
"""


def document(results: list[dict[str, Any]]) -> str:
    """The page of these results."""
    by_suite = {result["suite"]: result for result in results}
    parts = [HEAD]
    lines = ["| what | tried | as it should be | command |", "|---|---|---|---|"]
    for suite, summary in SUMMARIES.items():
        if suite in by_suite:
            lines += [
                f"| {a} | {b:,} | {c:,} | `{by_suite[suite]['command']}` |" for a, b, c in summary(by_suite[suite])
            ]
    parts.append("\n".join(lines) + "\n")
    parts += [DETAILS[suite](by_suite[suite]) for suite in DETAILS if suite in by_suite]
    return "\n".join(parts)


def _faults(result: dict[str, Any]) -> list[tuple[str, int, int]]:
    named = {"kills": "kill -9 at a random moment", "full_disks": "disk full", "read_only": "folder read-only"}
    return [(words, result[key]["tried"], result[key]["survived"]) for key, words in named.items()]


def _fuzz(result: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [("bad input through the command line", result["cases"], result["cases"] - result["failures"])]


def _guided(result: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [("bytes by a fuzzer that watches the readers", result["inputs"], result["inputs"] - result["failures"])]


def _numbers(result: dict[str, Any]) -> list[tuple[str, int, int]]:
    fine = result["batches"] - result["not_finite"] - result["beyond_the_range_of_float32"]
    return [("nasty batches through the loss", result["batches"], fine)]


def _processes(result: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [("a process of two killed or stopped", result["tried"], result["survived"])]


def _load(result: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [("loads in flat memory", 3, 3 - result["failures"])]


SUMMARIES = {
    "faults": _faults,
    "processes": _processes,
    "fuzz": _fuzz,
    "guided": _guided,
    "numbers": _numbers,
    "load": _load,
}


def _faults_text(result: dict[str, Any]) -> str:
    by = result["kills"]["by"]
    rows = "\n".join(f"| {name} | {part['tried']} | {part['survived']} |" for name, part in by.items())
    return f"""## Faults

Killed once to three times each, then resumed. Survived means: never a half-written file under its final name, nothing
left behind, and the result of an uninterrupted run (weights bit for bit).

| killed in | kills | survived |
|---|---|---|
{rows}

Full disks ({result["full_disks"]["way"]}) end in a message and exit code 1; with space again the work goes on to the
same result.
"""


def _processes_text(result: dict[str, Any]) -> str:
    return f"""## Processes

Two processes train; one is killed, or stopped so that it hangs. The other ended with a message within
`--timeout-minutes` in {result["survived"]} of {result["tried"]} cases. Resumed on one process and on two, the first
gradients agree to 1e-5 of the largest, the final weights to 1e-5.
"""


def _fuzz_text(result: dict[str, Any]) -> str:
    rows = "\n".join(f"| {name} | {count:,} |" for name, count in _merged(result["by"]).items())
    return f"""## Bad input

Damaged, swapped and made-up files, and flags of every kind. Right is a message and exit code 0, 1 or 2; a traceback, a
crash, a hang or too much memory is a failure: {result["failures"]} of {result["cases"]:,}.

| input | cases |
|---|---|
{rows}
"""


def _merged(by: dict[str, int]) -> dict[str, int]:
    merged: dict[str, int] = {}
    for name, count in by.items():
        name = name.removesuffix(" again")
        merged[name] = merged.get(name, 0) + count
    return merged


def _numbers_text(result: dict[str, Any]) -> str:
    rows = "\n".join(f"| {name} | {count:,} |" for name, count in result["by"].items())
    return f"""## Numbers

Embeddings of scale 1e-6 to 1e6, in batches from 2: constant, duplicated, one-hot, of rank one, with outliers and so on.
Most were computed many at a time (`torch.vmap`), {result["computed_as_training_does"]:,} also one by one under
autocast, as training does.

| what happened | batches |
|---|---|
| terms or gradients not finite | {result["not_finite"]:,} of {result["batches"]:,} |
| true value, by float64, beyond float32 | {result["beyond_the_range_of_float32"]:,} |
| eigensolver stopped a step | {result["eigensolves_that_stopped"]} |
| eigensolver repeated in float64 | {result["eigensolves_repeated"]} |

The polynomial kernel is tried up to 1e4 only: soon after it leaves float32, and training stops at that step
(`kvicreg replay`).

| of these | batches |
|---|---|
{rows}
"""


def _load_text(result: dict[str, Any]) -> str:
    train, soak, embed = result["train"], result["soak"], result["embed"]
    grown = soak["grown_by"]
    return f"""## Load

| load | change |
|---|---|
| an epoch over a folder of {train["images"]:,} images | {train["grown_by_mb"]} MB from a tenth of the way to the end |
| {soak["rounds"]} rounds of train, evaluate, embed in one process, after the first third | {grown["megabytes"]} MB, \
{grown["files"]:.0f} open files, {grown["threads"]:.0f} threads, {grown["children"]:.0f} children |
| embedding {embed["images"]:,} images to a file of {embed["output_mb"]:,} MB | {embed["memory_added_mb"]} MB |
"""


DETAILS = {
    "faults": _faults_text,
    "processes": _processes_text,
    "fuzz": _fuzz_text,
    "numbers": _numbers_text,
    "load": _load_text,
}


def main() -> int:
    PAGE.write_text(document([json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]))
    print(f"Page: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
