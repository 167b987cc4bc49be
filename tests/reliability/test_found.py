"""What the suites have found, kept found: a test for each defect that has no better place."""

from __future__ import annotations

import json
import os
import random

import numpy as np
import pytest
import torch

from kvicreg import KernelVICRegLoss, load_encoder, operators
from kvicreg.cli import main
from kvicreg.data.sources.folders import images_below
from kvicreg.evaluation.embed import embed
from kvicreg.report.page import write_report
from kvicreg.runs import Settings
from kvicreg.selection.advice import advise_on_run
from tests.reliability.fuzz import DEFECT


def test_random_features_take_any_seed_that_a_run_may_have():
    criterion = KernelVICRegLoss("rbf", approximation=operators.RandomFourier(features=4, seed=2**31 - 1))
    assert criterion(torch.randn(4, 3), torch.randn(4, 3)).isfinite()


@pytest.mark.parametrize("parametrization", ["scaled", "paper"])
@pytest.mark.parametrize("approximation", [None, operators.Nystrom(landmarks=4)])
def test_the_polynomial_kernels_norm_does_not_overflow_where_its_square_does(parametrization, approximation):
    z = (1e5 * torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))).requires_grad_()
    terms = KernelVICRegLoss("polynomial", parametrization, approximation=approximation).terms(z[0], z[1])
    exact = KernelVICRegLoss("polynomial", parametrization, approximation=approximation).terms(*z.detach().double())
    torch.testing.assert_close(terms.covariance.double(), exact.covariance, rtol=1e-3, atol=1e-6)
    (gradient,) = torch.autograd.grad(terms.covariance, z)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("settings", [{"seed": -1}, {"seed": 2**31}, {"learning_rate": "inf"}, {"blur": "nan"}])
def test_settings_beyond_reason_are_told(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        Settings.of(**settings)
    assert Settings.of(seed=2**31 - 1).engine.seed > 0


@pytest.mark.parametrize(
    "change",
    [{"image_size": 1}, {"image_size": 10**30}, {"mean": [0.1, 0.2]}, {"mean": None}, {"feature_dim": 3},
     {"architecture": {}}, {"architecture": "resnet18"}, {"std": ["x"]}],
)  # fmt: skip
def test_an_encoder_whose_description_disagrees_with_itself_is_refused(make_run, tmp_path, change):
    run = make_run(tmp_path / "run")
    description = json.loads((run / "encoder.json").read_text())
    (run / "encoder.json").write_text(json.dumps(description | change))
    with pytest.raises(ValueError, match=r"encoder\.json is damaged"):
        load_encoder(run)


def test_damaged_weights_are_told(make_run, tmp_path):
    run = make_run(tmp_path / "run")
    path = run / "encoder.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"encoder\.safetensors is damaged"):
        load_encoder(run)


@pytest.mark.parametrize("value", [np.array(3.0), np.zeros((2, 2, 2)), np.array(["a", "b"]), np.zeros((1, 4))])
def test_spectra_of_another_shape_are_told(make_run, tmp_path, value):
    run = make_run(tmp_path / "run")
    np.savez(run / "spectrum.npz", epochs=np.arange(4), eigenvalues=value)
    with pytest.raises(ValueError, match=r"spectrum\.npz is damaged: eigenvalues"):
        write_report([run])


def test_results_that_lack_something_deep_inside_are_told(make_run, tmp_path):
    run = make_run(tmp_path / "run")
    subjects = {"encoder": {"linear_probe": {"value": 0.5}}}
    results = {"format": 1, "subjects": subjects, "data": {"name": "x"}, "verdict": "", "diagnostics": {}}
    (run / "results.json").write_text(json.dumps(results))
    with pytest.raises(ValueError, match=r"run: its results are damaged .*evaluate again"):
        write_report([run])


def test_paths_are_kept_as_text_in_the_order_of_paths(tmp_path):
    for name in ("a/x.png", "a-b/x.png", "a.png", "a/y/z.png", "B/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    paths = images_below(tmp_path)
    assert list(paths) == sorted(tmp_path.rglob("*.png"))
    assert paths[1:3] == list(paths)[1:3]
    assert all(isinstance(text, str) for text in paths.texts)


def test_advice_passes_over_a_damaged_record(make_run, tmp_path):
    run = make_run(tmp_path / "run")
    with (run / "metrics.csv").open("a") as file:
        file.write(",".join(["x"] * 40) + "\n")
    (run / "selection.json").write_text("[1]")
    assert advise_on_run(run) == []


def test_an_unexpected_error_says_that_it_is_ours(monkeypatch, capsys, tmp_path):
    def broken(*_, **__):
        raise KeyError("oops")

    monkeypatch.setattr("kvicreg.evaluation.embed.embed", broken)
    assert main(["embed", str(tmp_path), str(tmp_path)]) == 1
    assert DEFECT in capsys.readouterr().err


def test_a_failed_embedding_leaves_nothing_behind(make_run, tmp_path, monkeypatch):
    run, out = make_run(tmp_path / "run"), tmp_path / "out"
    monkeypatch.setattr("kvicreg.evaluation.embed._labels", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        embed(run, "digits", out / "e.npz", workers=0)
    assert os.listdir(out) == []


def test_makers_of_bad_input_are_functions_of_their_address(tmp_path):
    from tests.reliability.damage import spoil
    from tests.reliability.pictures import image_bytes

    made = [spoil(random.Random("1/2"), image_bytes(random.Random("1/2"))) for _ in range(2)]
    assert made[0] == made[1]
