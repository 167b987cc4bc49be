"""What the mutation tests record: which faults are tried, what counts as killed, and the page."""

import json

import pytest

from tests.mutants import run
from tests.mutants.document import PAGE, document, wilson
from tests.mutants.run import (
    EQUIVALENT,
    RESULTS,
    TESTS,
    leave_out_slow_tests,
    meet,
    pending,
    read_verdicts,
    sample,
    write_result,
)

NAMES = [f"kvicreg.kernels.rbf.x_f__mutmut_{number}" for number in range(20)]
VERDICTS = dict(zip(NAMES, [0, 1, 33, 24, *[None] * 16], strict=True))


def test_a_larger_sample_has_the_smaller_one_and_what_has_a_verdict_is_left_alone():
    assert set(sample(VERDICTS, 5, seed=0)) < set(sample(VERDICTS, 9, seed=0)) < set(NAMES)
    assert sample(VERDICTS, 5, seed=1) != sample(VERDICTS, 5, seed=0)
    assert set(pending(sample(VERDICTS, None, 0), VERDICTS, again=False)) == set(NAMES[4:])
    assert set(pending(NAMES[:4], VERDICTS, again=True)) == {NAMES[0], NAMES[2]}


def test_verdicts_are_read_and_counted(tmp_path):
    folder = tmp_path / "mutants" / "kvicreg" / "kernels"
    folder.mkdir(parents=True)
    (folder / "rbf.py.meta").write_text(json.dumps({"exit_code_by_key": VERDICTS}))
    write_result("kernels", read_verdicts(tmp_path, "kernels"), tmp_path)
    result = json.loads((tmp_path / "kernels.json").read_text())
    assert (result["mutants"], result["tried"], result["killed"]) == (20, 4, 2)  # a timeout is noticed too
    assert result["survived"] == [NAMES[0], NAMES[2]]
    assert result["modules"] == {"kernels.rbf": {"killed": 2, "survived": 2}}
    page = document([result], {NAMES[0]: "the same for every input"})
    assert "| kernels | 20 | 4 | 1 | 2, 66.7% | 20.8% to 93.9% | 2, 66.7% | 95 % |" in page
    assert NAMES[2] in page
    assert f"- `{NAMES[0]}`" not in page


def test_what_survived_at_first_is_remembered(tmp_path):
    write_result("kernels", VERDICTS, tmp_path)
    write_result("kernels", VERDICTS | {NAMES[0]: 1, NAMES[4]: 1}, tmp_path)
    result = json.loads((tmp_path / "kernels.json").read_text())
    assert (result["survived"], result["survived_at_first"]) == ([NAMES[2]], [NAMES[0], NAMES[2]])
    assert "| kernels | 20 | 5 | 0 | 3, 60.0% | 23.1% to 88.2% | 4, 80.0% | 95 % |" in document([result], {})


def test_faults_do_not_meet_tests_that_take_long(tmp_path):
    (tmp_path / "mutants").mkdir()
    stats = {"duration_by_test": {"a": 0.1, "b": 99.0}, "tests_by_mangled_function_name": {"f": ["b", "a"], "g": ["b"]}}
    (tmp_path / "mutants" / "mutmut-stats.json").write_text(json.dumps(stats))
    leave_out_slow_tests(tmp_path)
    left = json.loads((tmp_path / "mutants" / "mutmut-stats.json").read_text())
    assert left == stats | {"tests_by_mangled_function_name": {"f": ["a"], "g": []}}


def test_survivors_meet_tests_by_themselves_unless_they_are_equivalent(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "EQUIVALENT", tmp_path / "equivalent.json")
    run.EQUIVALENT.write_text(json.dumps({NAMES[2]: "the same"}))
    folder = tmp_path / "mutants" / "kvicreg" / "kernels"
    folder.mkdir(parents=True)
    (folder / "rbf.py.meta").write_text(json.dumps({"exit_code_by_key": VERDICTS, "more": 1}))
    test = f"import os\n\n\ndef test():\n    assert os.environ['MUTANT_UNDER_TEST'] not in {[NAMES[0], NAMES[2]]}\n"
    (tmp_path / "mutants" / "test_one.py").write_text(test)
    meet(tmp_path, "kernels", ["test_one.py"])
    assert read_verdicts(tmp_path, "kernels") == VERDICTS | {NAMES[0]: 1}
    (tmp_path / "mutants" / "test_two.py").write_text("def test():\n    assert False\n")
    with pytest.raises(RuntimeError, match="do not pass before anything is changed"):
        meet(tmp_path, "kernels", ["test_two.py"])


def test_the_interval_is_wilsons():
    low, high = wilson(45, 50)
    assert (low, high) == (pytest.approx(0.7864, abs=1e-4), pytest.approx(0.9565, abs=1e-4))


def test_the_committed_page_is_of_the_committed_files_and_reasons_are_of_survivors():
    results = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    equivalent = json.loads(EQUIVALENT.read_text())
    pages = [page.replace(" (older than the code)", "") for page in (document(results, equivalent), PAGE.read_text())]
    assert pages[0] == pages[1], "python -m tests.mutants.document writes it"
    assert {result["folder"] for result in results} <= set(TESTS)
    assert set(equivalent) <= {name for result in results for name in result["survived"]}
