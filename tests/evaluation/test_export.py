"""What is exported computes what the encoder computes."""

import numpy as np
import pytest
import torch

from kvicreg.data import load
from kvicreg.evaluation.export import export
from kvicreg.runs import load_encoder


@pytest.fixture(scope="module")
def run(tmp_path_factory, make_run):
    return make_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def images():
    return load("digits", "test", image_size=16).fetch(torch.arange(7))


@pytest.mark.slow
def test_onnx_gives_the_encoders_features_of_real_images_for_any_batch(run, images):
    import onnxruntime

    written = export(run, "onnx")
    session = onnxruntime.InferenceSession(str(written.path))
    (found,) = session.run(["features"], {"images": images.float().numpy() / 255})
    encoder = load_encoder(run)
    with torch.no_grad():
        expected = encoder(encoder.preprocess(images)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    assert written.error < 1e-4
    assert [path.name for path in run.glob("*onnx*")] == [written.path.name], "the weights are in the file"


def test_the_torch_program_gives_the_encoders_features(run, images):
    written = export(run, "torch", projector=True)
    encoder = load_encoder(run, projector=True)
    program = torch.export.load(str(written.path)).module()
    with torch.no_grad():
        torch.testing.assert_close(program(images.float() / 255), encoder(encoder.preprocess(images)))
    assert sorted(path.name for path in run.glob("*.pt2")) == ["encoder.pt2"]
    assert not list(run.glob(".*.pt2")), "no partial file is left"


def test_an_export_that_differs_is_not_written(run, monkeypatch, tmp_path):
    monkeypatch.setattr("kvicreg.evaluation.export._torch", lambda model, example, path: lambda x: model(x) + 1)
    with pytest.raises(ValueError, match="nothing was written"):
        export(run, "torch", tmp_path / "out.pt2")
    assert not list(tmp_path.iterdir())


def test_unknown_formats_are_named(run):
    with pytest.raises(ValueError, match="onnx, torch, timm, hf, got 'tflite'"):
        export(run, "tflite")
