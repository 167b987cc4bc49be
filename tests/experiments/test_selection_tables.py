"""The correlation and regret tables, on results whose answer is known, and what the documentation shows of them."""

import json
from pathlib import Path

import pytest
from scipy.stats import kendalltau, spearmanr

from experiments import fairness, selection, trials
from experiments.common.page import fill, part_of
from kvicreg.selection.advice import advise_on_data, advise_on_ranking
from kvicreg.selection.criteria import CRITERIA

ROOT = Path(__file__).parents[2]
FACTS = {"noise": 0.01, "pixel_rank": 20, "initial_rank": 10, "view_difference": 0.5, "initial_retrieval": 0.1}


def made(best, seeds=(0, 1)):
    """Results in which rankme knows the probe, the loss is its opposite, and the others know nothing."""
    rows = []
    for seed in seeds:
        for i in range(8):
            probe = 0.9 - 0.01 * abs(i - best) - 0.001 * seed
            known = {name: float((i * 5 + 3) % 8) for name in CRITERIA} | {"rankme": probe, "loss": -probe}
            row = {"candidate": "rbf" if i == 0 else f"k{i}", "settings": {}, "seed": seed, "probe": probe}
            row |= {"probe_low": probe - 0.01, "probe_high": probe + 0.01, "knn": probe}
            rows.append(row | {"criteria": {str(step): known for step in (1, 2, 4)}})
    rows.append({"candidate": "bad", "settings": {}, "seed": 0, "error": "it diverged"})
    return {"data": "made", "settings": {"images": 1000}, "steps": [1, 2, 4], "facts": FACTS, "rows": rows}


@pytest.fixture
def results():
    return {"one": made(best=5), "two": made(best=3), "three": made(best=7)}


def test_correlations_are_scipys_and_failures_have_no_part(results):
    found = trials.correlations(results)
    assert found["rankme"] == pytest.approx({"one": 1, "two": 1, "three": 1})
    assert found["loss"] == pytest.approx({"one": -1, "two": -1, "three": -1})
    study = [row for row in results["one"]["rows"] if row["seed"] == 0 and "error" not in row]
    values = [[row["criteria"]["4"]["lidar"] for row in study], [row["probe"] for row in study]]
    assert found["lidar"]["one"] == pytest.approx(spearmanr(*values).statistic)
    kendall = trials.correlations(results, "kendall")
    assert kendall["lidar"]["one"] == pytest.approx(kendalltau(*values).statistic)


def test_regret_is_nothing_for_the_best_choice_and_all_for_the_worst(results):
    found = trials.regrets(results)
    assert found["rankme"] == pytest.approx({"one": 0, "two": 0, "three": 0})
    assert found["loss"]["one"] == pytest.approx(0.05)
    honest = trials.left_out(results)
    assert {row["criterion"] for row in honest.values()} == {"rankme"}
    assert honest["two"]["regret"] == pytest.approx(0)
    assert honest["two"]["regret_of_rbf"] == pytest.approx(0.03)


def test_a_candidate_dropped_early_is_not_chosen_though_it_would_have_ended_best():
    rows = [{"candidate": f"k{i}", "criteria": {"1": {"rankme": -i}, "2": {"rankme": 10 * i}}} for i in range(8)]
    assert trials.selected(rows, "rankme", [1, 2]) == "k3"  # the best of the first four at the end


def test_evidence_and_advice(results):
    evidence = trials.evidence(results)
    assert evidence["criterion"] == "rankme"
    assert evidence["data"]["one"]["best"] == "k5"
    assert evidence["data"]["one"]["best_gain_over_rbf"] == pytest.approx(0.05)
    near = " ".join(advise_on_data(FACTS, 1200, evidence))
    assert "most like one, where k5 did best: 5.0 points above RBF" in near
    assert "clear evidence" in near
    far = " ".join(advise_on_data({**FACTS, "noise": 0.9, "pixel_rank": 900}, 100_000, evidence))
    assert "weak evidence" in far
    assert "let a study on the images themselves decide" in far


def test_advice_on_a_ranking_says_how_sure_it_is(results):
    def row(name, value, error=0.01):
        about = {"candidate": name, "settings": {"kernel": name}, "steps": 10, "error": None, "score": value}
        return about | {"criteria": {"rankme": value, "lidar": value}, "standard_errors": {"rankme": error}}

    evidence = trials.evidence(results)
    clear = advise_on_ranking({"criterion": "rankme", "ranking": [row("rbf", 1.0), row("linear", 0.5)]}, evidence)
    assert "rbf ranks first by rankme, ahead of linear." in clear
    assert any("The difference is clear" in line and "2 of 2 criteria" in line for line in clear)
    assert any("was 1.00 to 1.00, and choosing by it cost 0.0 points" in line for line in clear)
    close = advise_on_ranking({"criterion": "rankme", "ranking": [row("rbf", 1.0, 1), row("linear", 0.9, 1)]}, evidence)
    assert any("The difference is close" in line for line in close)
    failed = [{"candidate": "rbf", "error": "no", "score": None, "settings": {}}]
    assert "Every candidate failed" in advise_on_ranking({"criterion": "rankme", "ranking": failed}, evidence)[0]


def test_a_picture_of_the_studies(results, tmp_path):
    selection.draw(results, tmp_path / "selection")
    text = (tmp_path / "selection.svg").read_text()
    assert "agreement of rankme" in text
    assert text.count("best: k5") == 1
    assert "two: rank correlation +1.00" in text


def test_fairness_table_pairs_seeds(tmp_path):
    rows = []
    for seed, base in enumerate((0.80, 0.84, 0.82)):
        for variant, gain in (("without", 0.0), ("group terms", 0.05)):
            one = {"accuracy": base + gain, "effective_rank": 10 + 20 * gain, "eigenvalues": [2.0, 1.0, 0.5 + gain]}
            groups = {"minority": one, "majority": one}
            rows.append({"kind": "classes", "variant": variant, "seed": seed, "groups": groups})
    text = fairness.markdown({"settings": {"data": "mnist"}, "rows": rows})
    assert "| without | 82.00 ± 4.97 |" in text
    assert "+5.00 ± 0.00" in text  # paired, the seeds' own spread is gone
    fairness.draw(rows, tmp_path / "fairness")
    assert "minority by classes" in (tmp_path / "fairness.svg").read_text()


def test_pages_are_filled_between_their_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- x: written by python -m experiments page -->\nold\n<!-- end of x -->\n\nmore\n")
    fill(page, "x", "new\n")
    assert part_of(page, "x") == "new"
    assert page.read_text().startswith("# A\n")
    assert page.read_text().endswith("more\n")
    with pytest.raises(ValueError, match="has no place for y"):
        fill(page, "y", "")


@pytest.mark.skipif(not (ROOT / "docs/results/selection").is_dir(), reason="no results have been committed yet")
def test_the_page_and_the_evidence_are_those_of_the_committed_results():
    results = trials.read(ROOT / "docs/results/selection")
    assert part_of(ROOT / "docs/selection.md", "selection") == selection.markdown(results).strip()
    shipped = json.loads((ROOT / "kvicreg/selection/evidence.json").read_text())
    assert shipped == json.loads(json.dumps(trials.evidence(results)))


@pytest.mark.skipif(not (ROOT / "docs/results/fairness").is_dir(), reason="no results have been committed yet")
def test_the_page_of_groups_is_that_of_the_committed_results():
    results = json.loads((ROOT / "docs/results/fairness/fairness.json").read_text())
    assert part_of(ROOT / "docs/fairness.md", "fairness") == fairness.markdown(results).strip()
