"""The probes give what scikit-learn gives, on real digits."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kvicreg.evaluation import few_label_probe, fit_linear_probe, knn, linear_probe, sgd_probe
from kvicreg.evaluation.probes import C_GRID, labelled_subset


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    x, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy(x).float(), torch.from_numpy(y).long()
    return x[:1297], y[:1297], x[1297:], y[1297:]


def scikit_learns(C: float):
    """scikit-learn's logistic regression, run until it has converged."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=10_000, tol=1e-8))


@pytest.mark.parametrize("C", [0.0001, 0.01, 1.0])
def test_linear_probe_on_raw_digits_equals_scikit_learns_logistic_regression(digits, C):
    train_x, train_y, test_x, test_y = digits
    ours = linear_probe(*digits, C=C)
    model = scikit_learns(C).fit(train_x.double().numpy(), train_y.numpy())
    assert np.array_equal(ours.predictions.numpy(), model.predict(test_x.numpy()))
    assert ours.accuracy == pytest.approx(model.score(test_x.numpy(), test_y.numpy()), abs=1e-9)


@pytest.mark.parametrize("count", [30, 300], ids=["fewer rows than features", "more"])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_scores_of_long_correlated_rows_are_scikit_learns(digits, count, C):
    """Rows of 256 features with a spectrum that decays as that of pixels: where plain L-BFGS is slow."""
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(64, 256, generator=generator) / torch.arange(1, 65)[:, None]
    x, t = digits[0][:count] @ mixing, digits[2] @ mixing
    y = digits[1][:count]
    ours = fit_linear_probe(x, y, C=C)
    model = scikit_learns(C).fit(x.double().numpy(), y.numpy())
    scores = model.decision_function(t.double().numpy())
    assert ours.settings["converged"]
    assert np.abs(ours.scores(t).double().numpy() - scores).mean() < 2e-3 * np.abs(scores).mean()


def test_linear_probe_scores_equal_scikit_learns_for_two_classes(digits):
    train_x, train_y, test_x, _ = digits
    keep = train_y < 2
    probe = fit_linear_probe(train_x[keep], train_y[keep], C=0.1)
    model = scikit_learns(0.1).fit(train_x[keep].double().numpy(), train_y[keep].numpy())
    ours = probe.scores(test_x).softmax(1).numpy()
    np.testing.assert_allclose(ours, model.predict_proba(test_x.double().numpy()), atol=1e-4)


def test_the_choice_of_c_is_that_of_trying_them_all(digits):
    """The search stops early along the grid; scikit-learn's whole grid has its best where the search has."""
    train_x, train_y, test_x, test_y = digits
    generator = torch.Generator().manual_seed(1)
    noisy = train_x + 12 * torch.randn(train_x.shape, generator=generator)
    order = torch.randperm(len(noisy), generator=torch.Generator().manual_seed(0))
    score, fit = order[: len(order) // 5], order[len(order) // 5 :]
    rows = StandardScaler().fit_transform(noisy.double().numpy())
    accuracy = []
    for C in C_GRID:
        model = LogisticRegression(C=C, max_iter=10_000, tol=1e-6).fit(rows[fit], train_y[fit].numpy())
        accuracy.append(model.score(rows[score], train_y[score].numpy()))
    assert linear_probe(noisy, train_y, test_x, test_y).settings["C"] == C_GRID[int(np.argmax(accuracy))]


def test_regularisation_is_chosen_on_train_and_told(digits):
    train_x, train_y, test_x, test_y = digits
    chosen = linear_probe(*digits)
    assert chosen.settings["C"] in C_GRID
    assert chosen.settings["C_chosen_on"] == "259 held-out train images"
    shuffled = linear_probe(train_x, train_y, test_x, test_y.roll(1))
    assert shuffled.settings["C"] == chosen.settings["C"], "test labels may not matter for the choice"


def test_two_classes_are_enough_to_choose_by(digits):
    _, train_y, _, test_y = digits
    two = (rows[labels < 2] for rows, labels in zip(digits, (train_y, train_y, test_y, test_y), strict=True))
    assert linear_probe(*two).settings["C_chosen_on"].endswith("held-out train images")


def test_knn_equals_scikit_learns_weighted_cosine_neighbours(digits):
    train_x, train_y, test_x, _ = digits
    ours = knn(*digits, k=7, temperature=0.07)
    model = KNeighborsClassifier(7, metric="cosine", weights=lambda d: np.exp((1 - d) / 0.07))
    model.fit(train_x.numpy().astype(np.float64), train_y.numpy())
    assert np.array_equal(ours.predictions.numpy(), model.predict(test_x.numpy().astype(np.float64)))


def test_sgd_probe_takes_100_epochs_unless_told_otherwise_and_says_so(digits):
    from torch.optim.optimizer import register_optimizer_step_post_hook

    steps = []
    hook = register_optimizer_step_post_hook(lambda *_: steps.append(1))
    result = sgd_probe(*digits)
    hook.remove()
    assert result.settings["epochs"] == 100
    assert len(steps) == 100 * -(-1297 // result.settings["batch_size"])


def test_sgd_probe_reaches_what_logistic_regression_reaches(digits):
    assert sgd_probe(*digits).accuracy == pytest.approx(linear_probe(*digits).accuracy, abs=0.025)


@pytest.mark.parametrize("probe", [linear_probe, knn, sgd_probe])
def test_probes_give_the_same_numbers_twice_and_keep_odd_labels(digits, probe):
    train_x, train_y, test_x, test_y = digits
    once, twice = probe(*digits), probe(*digits)
    assert torch.equal(once.predictions, twice.predictions)
    odd = probe(train_x, train_y * 10 + 3, test_x, test_y * 10 + 3)
    assert torch.equal(odd.predictions, once.predictions * 10 + 3)


def test_sgd_probe_survives_features_that_are_all_alike(digits):
    train_x, train_y, test_x, test_y = digits
    same = sgd_probe(train_x[:, 20:21].expand(-1, 512), train_y, test_x[:, 20:21].expand(-1, 512), test_y, epochs=5)
    assert 0.1 < same.accuracy < 0.5


def test_labelled_subset_takes_the_share_of_each_class_and_at_least_one():
    labels = torch.tensor([0] * 100 + [1] * 50 + [2] * 3)
    rows = labelled_subset(labels, 0.1, seed=0)
    assert torch.bincount(labels[rows]).tolist() == [10, 5, 1]
    assert not torch.equal(rows, labelled_subset(labels, 0.1, seed=1))


def test_fewer_labels_never_help_much(digits):
    assert few_label_probe(*digits, fraction=0.02).accuracy < few_label_probe(*digits, fraction=0.5).accuracy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: (a[0][None], *a[1:]), "train_x must have shape"),
        (lambda a: (a[0], a[1][:5], *a[2:]), "train_y must hold one label"),
        (lambda a: (a[0], a[1], a[2][:, :3], a[3]), "both need the same"),
        (lambda a: (a[0] / 0, *a[1:]), "not finite"),
        (lambda a: (a[0], a[1] * 0, *a[2:]), "at least two"),
    ],
)
def test_wrong_arguments_are_named(digits, change, message):
    with pytest.raises(ValueError, match=message):
        linear_probe(*change(digits))


def test_more_neighbours_than_images_are_refused(digits):
    with pytest.raises(ValueError, match="1297 train images, got 2000"):
        knn(*digits, k=2000)
