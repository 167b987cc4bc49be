"""Put small faults into the package, one at a time, and see which of them the tests notice.

    python -m tests.mutants.run                        every folder, every fault that has no verdict yet (hours)
    python -m tests.mutants.run kernels --count 200    a random sample of one folder's
    python -m tests.mutants.run kernels --again        those that survived, after a test was added
    python -m tests.mutants.run kernels --against tests/kernels/test_names.py    the same, by these tests alone

mutmut (https://mutmut.readthedocs.io) makes the faults and runs the tests, in a copy of the repository in `.mutants/`.
Every verdict is kept there as it comes, so a run can be stopped and started again. At the end of a folder the verdicts
are written to `docs/results/mutants/FOLDER.json`, and the page docs/mutants.md is made from these files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kvicreg.benchmarks.measure import code_hash

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent.json")
"""Faults that change nothing that anyone could see, each with the reason."""
CORE = ["tests/kernels", "tests/operators", "tests/losses", "tests/claims"]
TESTS = {
    "kernels": CORE,
    "operators": CORE,
    "losses": CORE,
    "data": ["tests/data"],
    "models": ["tests/models", "tests/backbones"],
    "methods": ["tests/methods/test_steps.py", "tests/methods/test_methods.py"],
    "runs": ["tests/runs", "tests/test_options.py"],
    "training": ["tests/training"],
    "evaluation": ["tests/evaluation", "tests/backbones"],
}
"""The tests that are to notice the faults of each folder."""
SLOW = (
    "not compiled and not do_not_escape and not test_global_batch and not two_processes "
    "and not method_processes and not test_processes and not test_nodes and not library_that_is_not_there "
    "and not names_the_line"
)
"""Left out from the start: tests of many seconds, those that see the package in other processes, of what is absent
where `make peers` has installed it, and of the line that a warning names, which is mutmut's own."""
LONGEST = 10.0
"""Seconds of a test that is worth repeating for every fault that the others let through."""
SURVIVED, NO_TESTS = 0, 33
CONFIG = """

[tool.mutmut]
source_paths = ["kvicreg"]
only_mutate = ["kvicreg/{folder}/*"]
also_copy = ["experiments", "docs", "examples", "README.md", "CONTRIBUTING.md", "Makefile", ".github"]
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-p", "no:cacheprovider"]
process_isolation = "forkserver"
timeout_constant = 10.0
debug = true
do_not_mutate_patterns = ['raise \\w+', 'warnings\\.warn', '^\\s*f?"[^"]*"\\s*$']
"""  # the wording of messages is not put to the test; without `debug` 3.8.1 loses what its fork server has collected


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", choices=[*TESTS, []], help="folders of kvicreg/; all if none is named")
    parser.add_argument("--count", type=int, help="try so many of each folder's faults, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--again", action="store_true", help="try those that survived once more")
    parser.add_argument("--against", nargs="+", default=[], help="let those that survived meet these tests alone")
    parser.add_argument("--work", type=Path, default=ROOT / ".mutants", help="where the copies and verdicts are kept")
    given = parser.parse_args(argv)
    for folder in given.folders or TESTS:
        work = given.work / folder
        if given.against:
            meet(work, folder, given.against)
            write_result(folder, read_verdicts(work, folder), RESULTS)
            continue
        copy_repository(work, folder)
        run_mutmut(work, folder, ["none"])  # makes the faults and finds out which test reaches which function
        leave_out_slow_tests(work)
        verdicts = read_verdicts(work, folder)
        tried = pending(sample(verdicts, given.count, given.seed), verdicts, again=given.again)
        print(f"{folder}: {len(tried):,} of {len(verdicts):,} faults to try", flush=True)
        if tried:
            run_mutmut(work, folder, tried)
        write_result(folder, read_verdicts(work, folder), RESULTS)
        print(f"{folder}: {RESULTS / folder}.json", flush=True)
    return 0


def copy_repository(work: Path, folder: str) -> None:
    """The files under version control, with mutmut's settings; what has not changed is left alone."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source, copy = ROOT / name, work / name
        if source.is_file() and not (copy.is_file() and copy.read_bytes() == source.read_bytes()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    tests = json.dumps([*TESTS[folder], "-k", SLOW])
    settings = (ROOT / "pyproject.toml").read_text() + CONFIG.format(folder=folder, tests=tests)
    if (work / "pyproject.toml").read_text() != settings:
        (work / "pyproject.toml").write_text(settings)


def run_mutmut(work: Path, folder: str, names: Iterable[str]) -> None:
    """Let mutmut try these faults, one at a time; it keeps each verdict as it comes."""
    program = Path(sys.executable).with_name("mutmut")
    (work / "mutants").mkdir(exist_ok=True)  # Python forgets a path that is not there when it starts
    log = work / "mutmut.log"
    command = [program, "run", "--max-children", "1", *names]
    with log.open("w") as out:
        subprocess.run(command, cwd=work, env=environment(work, TESTS[folder]), stdout=out, stderr=out)
    if not (work / "mutants" / "mutmut-stats.json").is_file() or "Failed to run clean test" in log.read_text():
        raise RuntimeError(f"the tests do not pass before anything is changed: see {log}")


def environment(work: Path, tests: Iterable[str]) -> dict[str, str]:
    """That of these tests on the copy; with other libraries' encoders among them, what `make peers` installs apart."""
    peers = [str(Path(sys.executable).parents[1] / "peers") for test in tests if "backbones" in test]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(work / "mutants"), *peers])}


def leave_out_slow_tests(work: Path) -> None:
    """Let no fault meet a test that takes longer than `LONGEST`."""
    path = work / "mutants" / "mutmut-stats.json"
    stats = json.loads(path.read_text())
    slow = {test for test, seconds in stats["duration_by_test"].items() if seconds > LONGEST}
    by_function = stats["tests_by_mangled_function_name"]
    stats["tests_by_mangled_function_name"] = {
        name: [test for test in tests if test not in slow] for name, tests in by_function.items()
    }
    path.write_text(json.dumps(stats))


def meet(work: Path, folder: str, tests: list[str]) -> None:
    """Run these tests with each fault that has survived and is not equivalent; what one of them notices is killed."""
    shutil.copytree(ROOT / "tests", work / "mutants" / "tests", dirs_exist_ok=True)
    shutil.copyfile(ROOT / "pyproject.toml", work / "mutants" / "pyproject.toml")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    equivalent = json.loads(EQUIVALENT.read_text())
    verdicts = read_verdicts(work, folder).items()
    survivors = [name for name, verdict in verdicts if verdict in (SURVIVED, NO_TESTS) and name not in equivalent]
    for name in ["", *survivors]:
        ran = subprocess.run(
            command,
            cwd=work / "mutants",
            env=environment(work, tests) | {"MUTANT_UNDER_TEST": name},
            capture_output=True,
            text=True,
        )
        if not name and ran.returncode:
            raise RuntimeError(f"the tests do not pass before anything is changed: {ran.stdout}")
        if name and ran.returncode:
            keep_verdict(work, folder, name, ran.returncode)
        print("killed" if ran.returncode else "survives", name or "without a fault", flush=True)


def keep_verdict(work: Path, folder: str, name: str, verdict: int) -> None:
    for path in (work / "mutants" / "kvicreg" / folder).rglob("*.meta"):
        content = json.loads(path.read_text())
        if name in content["exit_code_by_key"]:
            content["exit_code_by_key"][name] = verdict
            path.write_text(json.dumps(content, indent=4))


def read_verdicts(work: Path, folder: str) -> dict[str, int | None]:
    """What became of every fault: pytest's exit code, or None where it was not tried."""
    verdicts: dict[str, int | None] = {}
    for path in sorted((work / "mutants" / "kvicreg" / folder).rglob("*.meta")):
        verdicts |= json.loads(path.read_text())["exit_code_by_key"]
    return verdicts


def sample(verdicts: dict[str, int | None], count: int | None, seed: int) -> list[str]:
    """So many of the names, drawn at random; a larger count has those of a smaller one."""
    names = sorted(verdicts)
    random.Random(seed).shuffle(names)
    return names if count is None else names[:count]


def pending(names: list[str], verdicts: dict[str, int | None], *, again: bool) -> list[str]:
    """Those that are to be tried: without a verdict, or with `again` those that survived."""
    return [name for name in names if verdicts[name] is None or (again and verdicts[name] in (SURVIVED, NO_TESTS))]


def write_result(folder: str, verdicts: dict[str, int | None], results: Path) -> None:
    tried = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    survived = sorted(name for name, verdict in tried.items() if verdict in (SURVIVED, NO_TESTS))
    by_module: dict[str, dict[str, int]] = {}
    for name, verdict in tried.items():
        module = re.split(r"\.x[_ǁ]", name)[0].removeprefix("kvicreg.")
        counts = by_module.setdefault(module, {"killed": 0, "survived": 0})
        counts["survived" if verdict in (SURVIVED, NO_TESTS) else "killed"] += 1
    result: dict[str, Any] = {
        "folder": folder,
        "code": code_hash(folder),
        "mutants": len(verdicts),
        "tried": len(tried),
        "killed": len(tried) - len(survived),
        "modules": dict(sorted(by_module.items())),
        "survived": survived,
        "survived_at_first": sorted(({*survived} | before(results / f"{folder}.json")) & tried.keys()),
    }
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{folder}.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def before(path: Path) -> set[str]:
    """The faults that had survived when this file of results was written last, or before that."""
    return {*json.loads(path.read_text())["survived_at_first"]} if path.is_file() else set()


if __name__ == "__main__":
    sys.exit(main())
