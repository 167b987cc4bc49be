"""What the theory experiment measures, at a smaller size."""

import json

import numpy as np
import pytest
import torch
from scipy.special import ive
from sklearn.decomposition import KernelPCA

from experiments import theory
from experiments.common import Job
from kvicreg import kernels


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(theory, "BATCH_SIZES", (16, 32, 64, 128))
    monkeypatch.setattr(theory, "CIRCLES", 200)
    monkeypatch.setattr(theory, "ROLL", 300)


def test_population_spectrum_of_the_rbf_kernel_on_a_circle_is_of_bessel_functions():
    # exp(-gamma |x - y|^2) = exp(-2 gamma) exp(2 gamma cos(angle)) = sum of I_n(2 gamma) exp(-2 gamma) cos(n angle)
    ours = theory.cosine_series(kernels.RBF(0.7)).numpy()
    np.testing.assert_allclose(ours[:12], ive(np.arange(1, 13), 1.4), rtol=1e-9, atol=1e-15)


def test_components_are_kernel_pcas_at_unit_variance(small):
    z, _ = theory.swiss_roll(torch.Generator().manual_seed(0))
    kernel = kernels.RBF(0.01)
    ours = theory.components(z, kernel)
    expected = KernelPCA(5, kernel="rbf", gamma=0.01, eigen_solver="dense").fit_transform(z.numpy())
    np.testing.assert_allclose(ours.var(axis=0), 1, rtol=1e-9)
    np.testing.assert_allclose(np.abs(ours[:, :5]), np.abs(expected / expected.std(axis=0)), atol=1e-6)


def test_rkhs_components_read_what_euclidean_ones_do_not(small):
    numbers = theory.nonlinear_variance()["numbers"]
    two, ten = numbers["components"].index(2), numbers["components"].index(10)
    accuracy, r2 = numbers["circles"]["accuracy"], numbers["swiss_roll"]["r2_of_position_along_it"]
    assert accuracy["RBF"][two] > 0.98
    assert accuracy["Euclidean (linear kernel)"][-1] < 0.75
    for name in ("RBF", "Laplacian", "rational quadratic"):
        assert r2[name][ten] > 0.9
    assert r2["Euclidean (linear kernel)"][-1] < 0.2


def test_errors_fall_as_one_over_the_root_of_the_batch_size(small):
    measured = theory.batch_sizes_and_errors(draws=20)
    for name, slopes in measured["numbers"]["slope"].items():
        assert -0.7 < slopes["operator"] < -0.35, name
    for errors in measured["errors"].values():  # Weyl: no eigenvalue is further off than the operator
        assert (errors["eigenvalue"] <= errors["operator"] * 1.01 + 1e-3).all()


def test_only_the_spectrums_variance_term_leaves_the_line_by_itself():
    numbers = theory.leaving_collapse(steps=60)["numbers"]
    end = numbers["effective_rank_at_the_end"]
    assert numbers["effective_rank_at_the_start"] < 1.1
    assert end["VICReg, variance term"] < 2
    assert min(end[f"kernel variance term, {name}"] for name in ("linear", "RBF", "Laplacian")) > 8


def test_run_writes_figures_and_numbers(small, tmp_path):
    numbers = theory.Theory(draws=2, steps=60).run(Job(out=tmp_path, say=lambda _: None)).about
    assert json.loads((tmp_path / "theory.json").read_text()) == numbers
    for name in ("nonlinear-variance", "spectral-stability", "non-collapse"):
        assert (tmp_path / f"theory-{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"theory-{name}.svg").read_text()
