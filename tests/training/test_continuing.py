"""A run goes on longer than it was meant to, finished or not; what has made its weights can't change."""

from __future__ import annotations

import csv

import pytest
import torch
from safetensors.torch import load_file

from kvicreg.cli import main
from kvicreg.runs import RunFolder
from kvicreg.training import train
from kvicreg.training.continuing import MAY_CHANGE, continued


def rows(folder):
    return list(csv.DictReader((folder / "metrics.csv").open()))


def same(one, two):
    one, two = (load_file(folder / "encoder.safetensors") for folder in (one, two))
    return all(one[key].equal(two[key]) for key in one)


def test_a_finished_run_is_extended_and_follows_the_new_schedule(tiny_config, tiny_data, capsys):
    folder = train(tiny_config, data=tiny_data, quiet=True)
    before = (folder / "encoder.safetensors").read_bytes()
    train(tiny_config.replace(epochs=4), data=tiny_data, resume=True)
    told = " ".join(capsys.readouterr().out.split())
    assert "epochs is 4 now, and was 2: the learning rate follows the new length from here on" in told
    assert [row["epoch"] for row in rows(folder)] == ["1", "2", "3", "4"]
    rates = [float(row["learning_rate"]) for row in rows(folder)]
    assert rates[2] > rates[1], "half a cosine over four epochs is higher after the third than one over two at its end"
    assert RunFolder(folder).settings.schedule.epochs == 4
    assert (folder / "encoder.safetensors").read_bytes() != before


def test_more_steps_are_the_steps_that_would_have_been_taken(tiny_config, tiny_data, tmp_path):
    settings = tiny_config.replace(max_steps=4)
    folder = train(settings, data=tiny_data, quiet=True)
    assert [row["step"] for row in rows(folder)] == ["3", "4"]
    train(settings.replace(max_steps=6), data=tiny_data, quiet=True, resume=True)
    whole = train(tiny_config.replace(out=str(tmp_path / "whole")), data=tiny_data, quiet=True)
    assert [row["step"] for row in rows(folder)] == ["3", "6"]
    assert same(folder, whole)


def test_an_extended_run_can_be_stopped_and_goes_on_exactly(tiny_config, tiny_data, tmp_path):
    folders = []
    for name in ("one", "two"):
        settings = tiny_config.replace(out=str(tmp_path / name))
        folders.append(train(settings.replace(epochs=1), data=tiny_data, quiet=True))
        limit = {"max_steps": 5} if name == "two" else {}
        train(settings.replace(epochs=3, **limit), data=tiny_data, quiet=True, resume=True)
    train(settings.replace(epochs=3, max_steps=99), data=tiny_data, quiet=True, resume=True)
    assert same(*folders)


def test_fewer_epochs_than_are_done_are_refused_and_change_nothing(tiny_config, tiny_data):
    folder = train(tiny_config, data=tiny_data, quiet=True)
    config = (folder / "config.yaml").read_bytes()
    with pytest.raises(ValueError, match="epochs 1 is less than the 2 that are done"):
        train(tiny_config.replace(epochs=1), data=tiny_data, quiet=True, resume=True)
    assert (folder / "config.yaml").read_bytes() == config


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"batch_size": 16}, "batch_size can't change .*counted in batches"),
        ({"kernel": "linear"}, "kernel can't change .*trained with it"),
        ({"learning_rate": 0.5}, "learning_rate can't change"),
    ],
)
def test_what_has_made_the_weights_can_not_change(tiny_config, tiny_data, change, reason):
    train(tiny_config.replace(epochs=1), data=tiny_data, quiet=True)
    with pytest.raises(ValueError, match=reason):
        train(tiny_config.replace(**change), data=tiny_data, quiet=True, resume=True)


def test_what_may_change_are_settings(make_run, tmp_path):
    run = RunFolder(make_run(tmp_path / "run"))
    assert set(MAY_CHANGE) <= set(run.settings.flat())
    moved = continued(run, {"epochs": 9, "devices": 2, "log_every": run.settings.record.log_every})
    assert (moved.schedule.epochs, moved.engine.devices) == (9, 2)
    assert moved.folder == tmp_path / "run"


def test_the_command_line_extends_a_run_and_refuses_the_rest_by_name(tmp_path, capsys):
    run = str(tmp_path / "run")
    small = ["--width=0.25", "--batch-size=64", "--max-steps=2", "--probe-images=0", "--projector-outputs=16"]
    assert main(["train", "--epochs=1", f"--out={run}", *small]) == 0
    assert main(["train", f"--resume={run}", "--max-steps", "3", "--log-every", "1"]) == 0
    assert "Goes on at epoch 1, batch 3 of 125" in capsys.readouterr().out
    assert torch.load(RunFolder(run).checkpoint("last"), weights_only=True)["global_step"] == 3
    for flags, words in (
        (["--kernel", "linear"], "kernel can't change"),
        (["--overwrite"], "overwrite can't change"),
        (["--out", "elsewhere"], "out can't change"),
        (["--config", "mnist"], "config can't change"),
    ):
        assert main(["train", f"--resume={run}", *flags]) == 2
        assert words in capsys.readouterr().err
