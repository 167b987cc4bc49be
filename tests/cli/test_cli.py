"""The command line answers every mistake with a sentence and the right exit code, never with a traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from kvicreg import __version__
from kvicreg.cli import COMMANDS, main
from kvicreg.runs import Settings

GROUPS = sorted({name.split()[0] for name in COMMANDS if " " in name})


@pytest.fixture
def tell(capsys):
    """Run a command line; give back exit code and everything it said."""

    def run(*argv: str) -> tuple[int, str]:
        code = main(argv)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, " ".join((said.out + said.err).replace("│", " ").split())

    return run


def test_help_and_version(tell):
    code, said = tell("--help")
    assert code == 0
    assert all(name in said for name in COMMANDS)
    assert tell("--version") == (0, f"kvicreg {__version__}")
    assert tell()[0] == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(tell, name):
    code, said = tell(*name.split(), "--help")
    assert code == 0
    assert f"kvicreg {name}" in said.split("Example", 1)[1]


@pytest.mark.parametrize("group", GROUPS)
def test_groups_list_their_commands(tell, group):
    code, said = tell(group, "--help")
    assert code == 0
    assert all(name in said for name in COMMANDS if name.startswith(f"{group} "))


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["trian"], "no command 'trian'; did you mean 'train'?"),
        (["data", "gett"], "kvicreg data: no command 'gett'; did you mean 'get'?"),
        (["train", "--kernl", "rbf"], "--kernel"),
        (["train", "--epochs", "many"], "epochs: expected int, got 'many'"),
        (["train", "--epochs", "0"], "epochs must be positive"),
        (["train", "--optimizer", "adamm"], "did you mean 'adam'"),
        (["select", "--resume", "runs/x", "--epochs", "3"], "takes no other flag"),
        (["train", "--kernel", "rfb"], "did you mean 'rbf'"),
        (["train", "--blurr", "1"], "did you mean '--blur'"),
        (["train", "--encoder", "resnet81"], "did you mean 'resnet18'"),
        (["train", "--views", "digts"], "did you mean 'digits'"),
        (["train", "--method", "simclr", "--kernel", "laplacian"], "nothing reads kernel with method simclr"),
        (["train", "--method", "simclr", "--variance-weight", "3"], "it is read by method kernel-vicreg"),
        (["train", "--help", "optimiser"], "did you mean 'optimizer'"),
        (["data", "show", "mnist-small", "--rotaton", "3"], "did you mean '--rotation'"),
        (["embed"], "required"),
        (["embed", "runs/first", "photos", "--batch-size", "0"], "batch_size must be at least 1, got 0"),
        (["embed", "runs/first", "photos", "--intensity", "foo"], "intensity: expected minmax, a percentage"),
        (["evaluate", "runs/first", "--seed", "-1"], "seed must be at least 0 and at most"),
        (["train", "--dry-run", "true"], "--dry-run takes no value: --dry-run switches it on, --no-dry-run off"),
        (["train", "--compile=true"], "--compile takes no value"),
        (["train", "--no-compile", "False"], "--no-compile takes no value"),
        (["train", "--zzzzz", "1"], "more (--help all)"),
        (["train", "--wandb", "project"], "there is no flag --wandb; did you mean --logger wandb?"),
        (["train", "--kernel-simclr"], "there is no flag --kernel-simclr; did you mean --method kernel-simclr?"),
        (["search", "runs/first", "photos", "--count", "0"], "count must be at least 1, got 0"),
        (["search", "runs/first", "photos", "--batch-size", "0"], "batch_size must be at least 1, got 0"),
        (["outliers", "runs/first", "photos", "--count", "-3"], "count must be at least 1, got -3"),
        (["duplicates", "runs/first", "photos", "--threshold", "7"], "threshold must be a cosine from -1 to 1, got 7"),
        (["coreset", "runs/first", "photos", "--keep", "0"], "keep must be at least 1, got 0"),
        (["problems", "photos", "--tiny", "-1"], "tiny must be at least 0, got -1"),
        (
            ["explore", "runs/first", "photos", "--port", "70000"],
            "port must be at least 0 and at most 65535, got 70000",
        ),
        (["explore", "runs/first", "photos", "--kernel", "rfb"], "did you mean 'rbf'"),
        (["bench", "data", "--images", "0"], "images and folder_images must be at least batch_size, 512, got 0"),
        (["bench", "loss", "--repeats", "0"], "repeats must be at least 1, got 0"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_was_meant(tell, argv, sentence):
    code, said = tell(*argv)
    assert code == 2
    assert sentence in said


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["train", "--data", "{tmp}/nowhere"], "neither a data set's name nor a folder"),
        (["train", "--data", "mnits"], "did you mean 'mnist'"),
        (["train", "--data", "{tmp}/empty"], "empty"),
        (["train", "--config", "paper-mnist-rbff"], "did you mean 'paper-mnist-rbf'"),
        (["train", "--config", "{tmp}/bad.yaml"], "did you mean 'epochs'"),
        (["train", "--resume", "{tmp}/empty"], "is not a run folder"),
        (["train", "--batch-size", "100000", "--out", "{tmp}/r"], "batch_size 100000 is more than the 8000 images"),
        (["train", "--init", "{tmp}/empty", "--out", "{tmp}/r"], "empty is not a run folder"),
        (["train", "--init", "{tmp}/no.pth", "--data", "{tmp}/nowhere"], "there is no file or folder {tmp}/no.pth"),
        (["train", "--time", "10m", "--devices", "2", "--out", "{tmp}/r"], "give --epochs, and --time-limit to stop"),
        (["embed", "{tmp}/none", "mnist-small"], "there is no file or folder {tmp}/none"),
        (["train", "--accelerator", "gpux", "--out", "{tmp}/r"], "accelerator"),
        (["train", "--strategy", "dpd", "--out", "{tmp}/r"], "strategy"),
        (
            ["embed", "{tmp}/empty", "mnist-small"],
            "empty is not a run folder: it has no config.yaml and no encoder.json",
        ),
    ],
)
def test_a_mistake_exits_with_1_and_one_sentence(tell, tmp_path, argv, sentence):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.yaml").write_text("epocs: 3\n")
    code, said = tell(*(word.format(tmp=tmp_path) for word in argv))
    assert code == 1
    assert sentence.format(tmp=tmp_path) in said
    assert not (tmp_path / "r").exists()


def test_the_help_of_train_fits_a_screen_and_names_every_setting(tell, capsys):
    assert main(["train", "--help"]) == 0
    page = capsys.readouterr().out
    assert len(page.splitlines()) <= 40
    assert max(map(len, page.splitlines())) <= 120
    assert main(["train", "--help", "all"]) == 0
    everything = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')} " in everything for name in Settings().flat())


def test_the_help_of_a_method_shows_what_it_reads_and_nothing_else(tell):
    _, said = tell("train", "--method", "simclr", "--help")
    flags = said.split("--resume runs/first", 1)[1]
    assert "--temperature" in flags
    assert "--kernel" not in flags
    assert "--threshold" not in flags
    _, said = tell("train", "--optimizer", "lars", "--help", "optimizer")
    assert "--momentum" in said


@pytest.mark.parametrize(
    ("argv", "reads", "not_reads"),
    [
        (["--kernel", "rq"], ["--alpha", "--gamma"], "--degree"),
        (["--kernel", "rbf+polynomial"], ["--learn-mixture", "--degree"], "--alpha"),
        (["--optimizer", "lars"], ["--momentum", "--clip"], "--alpha"),
        (["--encoder", "resnet18"], ["--stem"], "--pool"),
        (["--method", "ssl-hsic", "--kernel", "rq"], ["--hsic-weight", "--alpha"], "--degree"),
    ],
)
def test_help_shows_what_every_choice_that_is_made_reads(capsys, argv, reads, not_reads):
    assert main(["train", *argv, "--help"]) == 0
    page = capsys.readouterr().out
    section = page.split(f"What {argv[1]} reads:\n", 1)[1].split("\n\n")[0]
    assert all(section.count(f"{flag} ") == 1 for flag in reads)
    assert f"{not_reads} " not in page
    assert page.count(f"  {reads[-1]} ") == 1  # and once only


def test_help_shows_the_default_and_not_what_was_given(capsys):
    assert main(["train", "--kernel", "rq", "--optimizer", "lars", "--help"]) == 0
    page = capsys.readouterr().out
    assert re.search(r"--kernel .*\[rbf\]", page)
    assert re.search(r"--optimizer .*\[adam\]", page)


def test_a_mistake_of_ours_shows_its_traceback(capsys, monkeypatch):
    def broken(*_, **__):
        return len(3)

    monkeypatch.setattr("kvicreg.training.plan.plan", broken)
    assert main(["train", "--dry-run"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "object of type 'int' has no len()" in said
    assert "a defect of kvicreg" in said


def test_dry_run_prints_the_resolved_config_and_an_estimate_and_writes_nothing(tell, tmp_path):
    code, said = tell(
        "train", "--dry-run", "--out", f"{tmp_path}/r", "--width", "0.25", "--batch-size", "64", "--kernel", "rq"
    )  # fmt: skip
    assert code == 0
    assert "kernel: rq" in said
    assert "image_size: 28" in said
    assert "GB of memory" in said
    assert not (tmp_path / "r").exists()


def test_flags_go_on_top_of_a_recipe(tell, tmp_path):
    (tmp_path / "recipe.yaml").write_text("kernel: rq\nwidth: 0.25\nbatch_size: 64\nepochs: 7\n")
    code, said = tell("train", "--config", f"{tmp_path}/recipe.yaml", "--epochs", "3", "--dry-run")
    assert code == 0
    assert "kernel: rq" in said
    assert "epochs: 3" in said


def test_training_then_embedding_from_the_command_line(tell, tmp_path):
    run, out = str(tmp_path / "first"), str(tmp_path / "e.npz")
    small = ["--width", "0.25", "--batch-size", "64", "--max-steps", "3", "--probe-images", "50"]
    code, said = tell("train", "--data", "mnist-small", "--kernel", "laplacian", "--epochs", "1", "--out", run, *small)
    assert code == 0
    assert f"Run folder: {run}" in said
    code, said = tell("train", "--out", run, *small)
    assert code == 1
    assert "--overwrite" in said
    code, said = tell("embed", run, "mnist-small", "--split", "test", "--out", out)
    assert (code, said) == (0, f"2,000 embeddings of width 128: {out} embedding: 2,000 ...")


@pytest.mark.slow
def test_ctrl_c_exits_with_130_and_says_how_to_continue(tmp_path):
    # a job in the background (make test &) ignores SIGINT, and its children do unless they say otherwise
    start = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_module('kvicreg')"
    )
    command = [sys.executable, "-c", start, "train", "--epochs", "50", "--out", f"{tmp_path}/r", "--width", "0.25"]
    process = subprocess.Popen(
        [*command, "--batch-size", "256", "--probe-images", "0", "--checkpoint-steps", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    while not (tmp_path / "r" / "checkpoints" / "last.ckpt").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert f"kvicreg train --resume {tmp_path}/r" in out
    assert "Traceback" not in out + errors
