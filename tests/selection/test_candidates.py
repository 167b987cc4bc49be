"""What there is to choose from, how the budget is shared out, and what the flags say."""

from itertools import pairwise

import pytest
from kvicreg.training.config import TrainConfig

from kvicreg.selection.candidates import DEFAULT, read_candidates
from kvicreg.selection.flags import minutes_of, steps_of
from kvicreg.selection.halving import LAST, order, plan, sizes
from kvicreg.training.build import build_loss


def test_every_default_candidate_can_be_built_and_differs_from_the_others():
    losses = [build_loss(candidate.of(TrainConfig())) for candidate in DEFAULT]
    assert len({(repr(loss), len(list(loss.parameters()))) for loss in losses}) == len(DEFAULT) >= 20


def test_candidates_by_name_by_kernel_and_from_a_file(tmp_path):
    (tmp_path / "mine.yaml").write_text("wide: {kernel: rbf, bandwidth_multiple: 8}\n")
    found = read_candidates(["rbf-bandwidth-2", "0.3*rbf+0.7*rq", str(tmp_path / "mine.yaml")])
    assert [candidate.name for candidate in found] == ["rbf-bandwidth-2", "0.3rbf+0.7rq", "wide"]
    assert found[0].settings == {"kernel": "rbf", "bandwidth_multiple": 2.0}
    assert found[1].of(TrainConfig()).kernel == "0.3*rbf+0.7*rq"
    assert found[2].of(TrainConfig()).bandwidth_multiple == 8


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("wide: {kernl: rbf}", "there is no setting 'kernl'; did you mean 'kernel'"),
        ("a/b: {kernel: rbf}", "can't be the name of a folder"),
        ("- rbf", "expected lines like"),
        ("a: {kernel: rbf", "not valid YAML"),
        ("a: {kernel: rbf}", "give at least two"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, text, sentence):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_candidates([str(tmp_path / "mine.yaml")])


def test_two_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two are called 'rbf'"):
        read_candidates(["rbf", "linear", "rbf"])


@pytest.mark.parametrize("candidates", [2, 3, 4, 7, 20, 33])
@pytest.mark.parametrize("budget", [200, 2000, 12345])
def test_a_plan_keeps_within_its_budget_and_uses_most_of_it(candidates, budget):
    rungs = plan(candidates, budget, full=10**6)
    spent, before = 0, 0
    for rung in rungs:
        spent, before = spent + rung.candidates * (rung.steps - before), rung.steps
    cost_of_one_more = candidates + sum(s * 2 ** (k - 1) for k, s in enumerate(sizes(candidates)) if k)
    assert budget - cost_of_one_more < spent <= budget
    assert rungs[-1].candidates <= LAST
    assert all(b.steps == 2 * a.steps for a, b in pairwise(rungs))


def test_no_rung_goes_beyond_a_full_run():
    assert plan(8, 10**6, full=50)[-1].steps <= 50


def test_order_is_by_score_then_as_given_with_failures_last():
    assert order({"a": 1.0, "b": None, "c": 2.0, "d": 1.0, "e": float("nan")}) == ["c", "a", "d", "e", "b"]


def test_budgets_as_people_write_them():
    assert [steps_of(said) for said in ("2000steps", "2000", "2,000 steps", "1step")] == [2000, 2000, 2000, 1]
    assert [minutes_of(said) for said in ("30m", "2h", "90s", "1.5h")] == [30, 120, 1.5, 90]
    for said in ("30m", "steps", "0steps", "-5"):
        with pytest.raises(ValueError, match="budget: expected a number of steps"):
            steps_of(said)
    for said in ("30", "0m", "soon"):
        with pytest.raises(ValueError, match="time: expected something like"):
            minutes_of(said)
