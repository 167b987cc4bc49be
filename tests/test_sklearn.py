"""The scikit-learn estimators: scikit-learn's own checks, its conventions, tables and images, and kernel PCA."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA, KernelPCA
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from kvicreg import kernels
from kvicreg.operators import Nystrom
from kvicreg.sklearn import KernelSpectrum, KernelVICReg
from kvicreg.sklearn.inputs import table_view

X, Y = load_iris(return_X_y=True)
DIGITS = load_digits().images[:64]


def quick(**settings):
    return KernelVICReg(**{"n_components": 4, "epochs": 2, "random_state": 0, **settings})


@parametrize_with_checks([KernelVICReg(epochs=2), KernelSpectrum()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# -- conventions -----------------------------------------------------------------------------------------------------


def test_in_a_pipeline_and_a_search():
    search = GridSearchCV(
        make_pipeline(quick(), LogisticRegression(max_iter=500)), {"kernelvicreg__kernel": ["rbf", "linear"]}, cv=2
    ).fit(X, Y)
    assert search.best_score_ > 0.6
    assert set(search.cv_results_["param_kernelvicreg__kernel"]) == {"rbf", "linear"}


def test_a_clone_has_the_settings_and_not_the_training():
    fitted = quick(kernel=kernels.RBF(gamma=0.5), strength=0.1).fit(X)
    copy = clone(fitted)
    assert (copy.strength, copy.kernel.gamma) == (0.1, 0.5)
    assert not hasattr(copy, "encoder_")


def test_names_of_features_and_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    estimator = quick(n_components=3).set_output(transform="pandas").fit(frame)
    assert list(estimator.feature_names_in_) == list("abcd")
    assert list(estimator.transform(frame).columns) == ["kernelvicreg0", "kernelvicreg1", "kernelvicreg2"]
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.transform(frame[["b", "a", "c", "d"]])


def test_a_seed_decides_everything_and_the_global_state_nothing():
    before = torch.get_rng_state()
    first = quick().fit_transform(X)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    np.testing.assert_array_equal(quick().fit(X).transform(X), first)
    assert not np.allclose(quick(random_state=1).fit_transform(X), first)


def test_a_pickle_transforms_alike_and_can_be_trained_on():
    fitted = quick().fit(X)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(copy.partial_fit(X).transform(X), fitted.partial_fit(X).transform(X))


def test_partial_fit_is_one_more_epoch():
    parts = quick()
    for _ in range(3):
        parts.partial_fit(X)
    assert len(parts.loss_curve_) == 3
    # the scale is measured anew at every call, to the same value up to round-off
    np.testing.assert_allclose(parts.transform(X), quick(epochs=3).fit_transform(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic_and_features_are_of_the_type_of_the_table(dtype):
    fitted = quick().fit(X.astype(dtype))
    assert next(fitted.encoder_.parameters()).dtype == torch.from_numpy(np.zeros(1, dtype)).dtype
    assert fitted.transform(X.astype(dtype)).dtype == dtype


def test_many_rows_are_transformed_in_parts_and_alike():
    fitted = quick().fit(X)
    many = np.tile(X, (30, 1))
    np.testing.assert_allclose(fitted.transform(many)[-150:], fitted.transform(X), rtol=1e-9, atol=1e-12)


# -- training --------------------------------------------------------------------------------------------------------


def test_what_columns_share_is_kept_and_what_is_in_one_alone_goes():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((300, 2))
    columns = np.hstack([shared @ rng.standard_normal((2, 10)), 3 * rng.standard_normal((300, 10))])

    def share(estimator):
        features = estimator.fit_transform(columns.astype(np.float32))
        return LinearRegression().fit(features, shared).score(features, shared)

    untrained = share(quick(n_components=3, epochs=1, learning_rate=1e-9))
    assert share(quick(n_components=3, epochs=60, learning_rate=3e-3)) > max(0.8, untrained + 0.2)


def test_weights_reach_the_loss():
    assert quick(invariance_weight=0, variance_weight=0, covariance_weight=0).fit(X).loss_curve_ == [0, 0]


def test_progress_is_told_when_asked_for(capsys):
    quick(epochs=4, verbose=2).fit(X)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["epoch 2", "epoch 4"]


# -- views -----------------------------------------------------------------------------------------------------------


def test_a_mask_puts_the_mean_a_swap_another_rows_value_and_noise_is_added():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 5))
    masked = table_view(x, "mask", 0.3, rng)
    assert ((masked == 0) | (masked == x)).all()
    assert (masked == 0).mean() == pytest.approx(0.3, abs=0.05)
    swapped = table_view(x, "swap", 0.3, rng)
    assert all(np.isin(swapped[:, j], x[:, j]).all() for j in range(5))
    assert (swapped != x).mean() == pytest.approx(0.3, abs=0.05)
    assert (table_view(x, "noise", 0.3, rng) - x).std() == pytest.approx(0.3, rel=0.1)


def test_a_function_of_ones_own_is_given_rows_as_they_are():
    given = []

    def double(rows, rng):
        assert isinstance(rng, np.random.Generator)
        given.append(rows)
        return 2 * rows

    quick(views=double, epochs=1, batch_size=200).fit(X)
    assert len(given) == 2  # two views of one batch
    assert {tuple(row) for row in given[0]} == {tuple(row) for row in X}
    with pytest.raises(ValueError, match=r"views must return rows of shape \(150, 4\), got \(150, 1\)"):
        quick(views=lambda rows, rng: rows[:, :1], batch_size=200).fit(X)


def test_batches_are_of_nearly_one_size():
    sizes = []
    quick(views=lambda rows, rng: sizes.append(len(rows)) or rows, batch_size=60, epochs=1).fit(X)
    assert sizes == [75, 75, 75, 75]


# -- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(64, 8, 8), (64, 8, 8, 1), (64, 1, 8, 8)])
def test_images_in_any_layout(shape):
    images = DIGITS.reshape(shape)
    fitted = quick(views="digits", epochs=1).fit(images)
    features = fitted.transform(images)
    assert (features.shape, features.dtype) == ((64, 4), np.float32)
    np.testing.assert_allclose(fitted.transform(images[5:7]), features[5:7], rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="X must have rows of shape"):
        fitted.transform(images[:, :, :4])


def test_color_images_of_8_bits_and_a_function_of_ones_own():
    images = np.random.default_rng(0).integers(0, 256, (16, 20, 20, 3), dtype=np.uint8)
    flipped = quick(views=lambda rows, rng: rows[:, :, ::-1], epochs=1).fit(images)
    assert flipped.partial_fit(images).transform(images).shape == (16, 4)


# -- at the door -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": "crop"}, "views must be a function or some of mask, noise, swap joined by"),
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"strength": 1.5}, "strength must be at least 0 and at most 1, got 1.5"),
        ({"batch_size": 1}, "batch_size must be at least 2, got 1"),
        ({"kernel": "rbff"}, "unknown kernel 'rbff': did you mean 'rbf'?"),
        ({"invariance_weight": -1}, "invariance_weight must be at least 0, got -1"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        quick(**settings).fit(X)


def test_a_missing_package_is_named_with_its_extra():
    code = "import sys; sys.modules['sklearn'] = None\nimport kvicreg.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "pip install 'kvicreg[sklearn]'" in done.stderr


# -- kernel PCA ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "theirs"), [(kernels.RBF(gamma=0.2), "rbf"), ("linear", "linear")])
def test_the_spectrum_is_kernel_pcas(ours, theirs):
    expected = KernelPCA(kernel=theirs, gamma=0.2).fit(X).eigenvalues_
    spectrum = KernelSpectrum(kernel=ours).fit(X)
    np.testing.assert_allclose(spectrum.eigenvalues_[: len(expected)], expected, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(spectrum.eigenvalues_[len(expected) :], 0, atol=1e-9)
    shares = expected / expected.sum()
    assert spectrum.effective_rank_ == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))


def test_shares_are_pcas_and_an_approximation_with_every_landmark_is_exact():
    np.testing.assert_allclose(
        KernelSpectrum(kernel="linear").fit(X).explained_variance_ratio_, PCA().fit(X).explained_variance_ratio_
    )
    exact, same = KernelSpectrum().fit(X), KernelSpectrum(approximation=Nystrom(landmarks=150)).fit(X)
    assert same.effective_rank_ == pytest.approx(exact.effective_rank_, rel=1e-4)
