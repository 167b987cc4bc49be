"""What the mutation tests record: which faults are tried, what counts as killed, and the page."""

import json

import pytest

from tests.mutants.document import EQUIVALENT, PAGE, document, wilson
from tests.mutants.run import RESULTS, TESTS, pending, read_verdicts, sample, write_result

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
    assert "| kernels | 20 | 4 | 2 | 1 | 66.7% |" in page
    assert NAMES[2] in page
    assert f"- `{NAMES[0]}`" not in page


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
