"""What files of a run hold, each for itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvicreg import __version__
from kvicreg.data import ArrayData
from kvicreg.data.given import given_name, given_source
from kvicreg.models import build_encoder
from kvicreg.runs import RunFolder, Settings
from kvicreg.runs.encoder import describe_encoder
from kvicreg.runs.hub import _card
from kvicreg.runs.results import controls_of, short_names, write_results
from kvicreg.runs.stored import StoredEncoder


def test_an_encoder_is_described_with_the_version_that_wrote_it():
    about = describe_encoder(build_encoder("small-cnn", 1, 16), 16, [0.5], [0.2])
    assert about["version"] == __version__


def test_a_fault_keeps_the_batch(tmp_path):
    path = RunFolder(tmp_path).write_fault(1, samples=np.arange(3))
    with np.load(path) as kept:
        assert (path.name, int(kept["rank"]), kept["samples"].tolist()) == ("fault-1.npz", 1, [0, 1, 2])


@pytest.mark.parametrize(("data", "words"), [("mnist", "trained on mnist."), (None, "trained on images of somebody's")])
def test_a_card_says_what_the_encoder_was_trained_on(data, words):
    assert words in _card(
        "me/it", {"architecture": {"name": "small-cnn"}, "image_size": 28, "feature_dim": 64, "data": data}
    )


def test_results_are_written_to_be_read(tmp_path):
    write_results(tmp_path / "results.json", {"encoder": {"knn": 0.5}})
    assert '\n  "encoder": {\n    "knn": 0.5' in (tmp_path / "results.json").read_text()


def test_controls_are_told_once_where_they_are_the_same():
    one = {"encoder": {"knn": 2}, "pixels": {"knn": 1}}
    assert controls_of({"a": one, "b": one}) == [("pixels", {"knn": 1})]
    other = one | {"pixels": {"knn": 3}}
    assert [name for name, _ in controls_of({"a": one, "b": other})] == ["pixels of a", "pixels of b"]


def test_runs_of_one_name_are_told_apart_by_their_parents(tmp_path):
    assert short_names([tmp_path / "a/run", tmp_path / "b/run", tmp_path / "c"]) == ["a/run", "b/run", "c"]


def test_images_from_python_are_no_matter_of_settings():
    given = given_source(ArrayData(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), name="mine"), "3fa9")
    assert given_name(given) == "mine"
    assert given_name("mnist") is None
    settings = Settings.of(data="mnist")
    assert settings.missing_from(Settings.of(data=given).resolved_method()) == {}
    assert settings.missing_from(Settings.of(data="cifar10").resolved_method()) == {"data": "mnist"}


class Planted:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return (print, ("planted",))


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path, capsys):
    torch.save({"state_dict": {}, "encoder": {}, "epoch": 0, "global_step": 0, "more": Planted()}, tmp_path / "x.ckpt")
    with pytest.raises(ValueError, match="is damaged"):
        StoredEncoder(tmp_path / "x.ckpt").description()
    assert "planted" not in capsys.readouterr().out
