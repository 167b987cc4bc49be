"""A log in a file has a line within seconds and never falls silent; it says what is read, and where training is."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
from rich.console import Console

from kvicreg.cli import main
from kvicreg.runs import RunFolder
from kvicreg.training import progress, record, train
from kvicreg.training.run import _tell_unreadable


class Slow(pl.Callback):
    def __init__(self, seconds):
        self.seconds = seconds

    def on_train_batch_start(self, *_):
        time.sleep(self.seconds)


@pytest.fixture
def short_silence(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.2)
    monkeypatch.setattr(progress, "SILENCE", 0.6)
    monkeypatch.setattr(record, "SECONDS", 0.1)


def test_lines_tell_step_terms_speed_and_time_left(tiny_config, tiny_data, capsys, short_silence):
    train(tiny_config.replace(epochs=3, log_every=100), data=tiny_data, callbacks=[Slow(0.25)])
    lines = capsys.readouterr().out.splitlines()
    steps = [line for line in lines if line.startswith("step ") and not line.endswith(" so far")]
    pattern = r"step \d of 9 \(epoch \d of 3\)  loss \S+  invariance .* images/s  .* left"
    assert len(steps) >= 8, lines
    assert all(re.fullmatch(pattern, line) for line in steps), steps
    losses = [re.search(r"loss (\S+)", line)[1] for line in steps]
    assert len(set(losses)) > 4, "not those of long ago"


def test_a_step_that_takes_long_is_told(tiny_config, tiny_data, capsys, short_silence):
    train(tiny_config.replace(epochs=1), data=tiny_data, callbacks=[Slow(1.0)])
    out = capsys.readouterr().out
    assert re.search(r"step 1 of 3: \d+ seconds so far", out)
    assert re.search(r"step 3 of 3: \d+ seconds so far", out)


def test_quick_epochs_have_a_line_each_and_no_more(tiny_config, tiny_data, capsys):
    train(tiny_config, data=tiny_data)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("step ") for line in lines) == 1, "the first"
    assert sum(line.startswith("epoch ") for line in lines) == 2


def test_it_says_what_is_read_before_anything_slow(tmp_path, capsys):
    assert main(["train", "--data", "nowhere", "--out", str(tmp_path / "run")]) == 1
    assert "Reading nowhere" in capsys.readouterr().out


def test_the_parameters_are_the_encoders_and_the_projectors_beside(tiny_config, tiny_data, capsys):
    from kvicreg.runs import load_encoder

    folder = train(tiny_config.replace(epochs=1), data=tiny_data)
    whole = load_encoder(folder, projector=True)
    count = [sum(p.numel() for p in part.parameters()) for part in (whole.encoder, whole.projector)]
    told = " ".join(capsys.readouterr().out.split())
    assert f"small-cnn, {count[0]:,} parameters, features of width" in told
    assert f"(projector: {count[1]:,} more)" in told


def test_beside_a_bar_stands_what_fits():
    values = {"loss": 3.0, "effective_rank": 12.4, "images_per_second": 1234.5}
    assert progress.abridge({}) == ""
    assert progress.abridge(values) == "loss 3 rank 12 1,234/s"
    terms = {"invariance": 0.1234, "variance": 1.0, "covariance": 20.0}
    assert progress.abridge(values | terms) == "inv 0.123 var 1 cov 20 rank 12 1,234/s"


def test_files_that_could_not_be_read_are_told_and_listed(tmp_path, capsys):
    for count, sentence in ((1, "1 file could not be read (0.png): see"), (4, "(0.png, 1.png, 2.png, ...): see")):
        folder = RunFolder(tmp_path / str(count))
        folder.path.mkdir()
        data = SimpleNamespace(unreadable=[Path(f"{number}.png") for number in range(count)])
        _tell_unreadable(data, folder, Console())
        told = capsys.readouterr().out
        assert sentence in told
        listed = Path(told.split(": see ")[1].strip())
        assert listed.read_text().split() == [f"{number}.png" for number in range(count)]
    _tell_unreadable(SimpleNamespace(unreadable=[]), folder, Console())
    assert capsys.readouterr().out == ""
