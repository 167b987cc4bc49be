"""What there is to choose from, how the budget is shared out, and what the flags say."""

from itertools import pairwise

import pytest
from torch import nn

from kvicreg.runs import Settings
from kvicreg.runs.durations import minutes
from kvicreg.selection.candidates import DEFAULT, check_candidates, read_candidates, shared_settings
from kvicreg.selection.halving import LAST, order, plan, sizes
from kvicreg.selection.options import SelectOptions, steps


def test_every_default_candidate_can_be_built_and_differs_from_the_others():
    modules = nn.Identity(), nn.Identity()
    losses = [candidate.of(Settings()).method.build(*modules).loss for candidate in DEFAULT]
    assert len({(repr(loss), len(list(loss.parameters()))) for loss in losses}) == len(DEFAULT) >= 20


def test_candidates_by_name_by_kernel_and_from_a_file(tmp_path):
    (tmp_path / "mine.yaml").write_text("wide: {kernel: rbf, bandwidth_multiple: 8}\n")
    candidates = read_candidates(["rbf-bandwidth-2", "0.3*rbf+0.7*rq", str(tmp_path / "mine.yaml")])
    assert [candidate.name for candidate in candidates] == ["rbf-bandwidth-2", "0.3rbf+0.7rq", "wide"]
    assert candidates[0].settings == {"kernel": "rbf", "bandwidth_multiple": 2.0}
    assert candidates[1].of(Settings()).flat()["kernel"] == "0.3*rbf+0.7*rq"
    assert candidates[2].of(Settings()).flat()["bandwidth_multiple"] == 8
    assert read_candidates() == list(DEFAULT)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("wide: {kernl: rbf}\nrbf: {}", "candidate wide: there is no setting 'kernl'; did you mean 'kernel'"),
        ("wide: {temperature: 1}\nrbf: {}", "candidate wide: nothing reads temperature with method kernel-vicreg"),
        ("a/b: {kernel: rbf}", "can't be the name of a folder"),
        ("- rbf", "expected lines like"),
        ("a: {kernel: rbf", "not valid YAML"),
        ("a: {kernel: rbf}", "give at least two"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, text, sentence):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        check_candidates(read_candidates([str(tmp_path / "mine.yaml")]), Settings())


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"kernel": "rbf"}, ()),  # the default, but given
        ({"kernel": "linear"}, ("rbf", "rq")),
        ({"variance_weight": 2.0}, ()),
        ({"bandwidth_multiple": 1.0}, ("rbf", "rbf-bandwidth-2")),
    ],
)
def test_what_candidates_choose_cannot_be_given_to_all(given, names):
    (name,) = given
    with pytest.raises(ValueError, match=f"{name} can't be given to all candidates: they choose it; .*--candidates"):
        shared_settings(given, names)


def test_what_no_candidate_chooses_is_shared():
    settings = shared_settings({"variance_weight": 2.0, "epochs": 3}, ("rbf", "linear"))
    check_candidates(read_candidates(["rbf", "linear"]), settings)
    assert settings.given() == {"variance_weight": 2.0, "epochs": 3}
    with pytest.raises(ValueError, match="variance_weight can't be given to all candidates"):
        check_candidates(DEFAULT, settings)


def test_a_method_without_a_kernel_has_no_candidates():
    with pytest.raises(ValueError, match="the method simclr has no kernel to choose"):
        check_candidates(DEFAULT, Settings.of(method="simclr"))


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
    assert [steps(text) for text in ("2000steps", "2000", "2,000 steps", "1step")] == [2000, 2000, 2000, 1]
    assert [minutes(text) for text in ("30m", "2h", "90s", "1.5h")] == [30, 120, 1.5, 90]
    for text in ("30m", "steps", "0steps", "-5"):
        with pytest.raises(ValueError, match="budget: expected a number of steps"):
            SelectOptions(budget=text)
    for text in ("30", "0m", "soon"):
        with pytest.raises(ValueError, match="time: expected something like"):
            SelectOptions(time=text)


def test_a_criterion_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="there is no criterion 'lider'; did you mean 'lidar'"):
        SelectOptions.of(criterion="lider")
