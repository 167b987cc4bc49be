"""kvicreg evaluate, report and export from the command line: last lines, exit codes, no traceback."""

import json

import pytest

from kvicreg.cli import main
from kvicreg.evaluation.evaluate import EvaluationOptions, evaluate
from kvicreg.runs.zoo import ZOO, copied


@pytest.fixture(scope="module")
def run(tmp_path_factory, make_run):
    folder = make_run(tmp_path_factory.mktemp("runs") / "one")
    evaluate(folder, EvaluationOptions(map_images=0, robustness_images=0), command="once")
    return folder


def test_evaluate_prints_the_verdict_and_a_table_and_says_what_it_wrote(run, capsys):
    assert main(["evaluate", str(run), "--map-images", "0", "--robustness-images", "0"]) == 0
    out = capsys.readouterr().out
    assert "A linear probe on the frozen encoder is right on" in out
    assert "random encoder" in out
    assert out.splitlines()[-1].startswith(f"Results: {run / 'results.json'}")
    assert json.loads((run / "results.json").read_text())["command"].startswith("kvicreg ")


def test_report_writes_the_page_and_the_figures(run, tmp_path, capsys):
    assert main(["report", str(run), "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert (run / "figures" / "spectrum.svg").is_file()
    assert str(tmp_path / "page.html") in capsys.readouterr().out.splitlines()[-1]


def test_export_says_how_close_the_file_is(run, capsys):
    assert main(["export", str(run), "--format", "torch"]) == 0
    assert "from the encoder's own output" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["evaluate", "report", "export"])
def test_a_foreign_folder_gets_one_sentence_and_exit_code_1(command, tmp_path, capsys):
    assert main([command, str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "is not a run folder" in error
    assert "Traceback" not in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no-such-run"], "there is no run folder"),
        (["--groups", "no.txt"], "--groups no.txt: no such file"),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_measured(tmp_path, make_run, capsys, words, sentence):
    run = make_run(tmp_path / "run")
    assert main(["evaluate", str(run), *words, "--map-images", "0"]) == 1
    assert sentence in capsys.readouterr().err
    assert not (run / "evaluation").exists()


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_no_folder_is_wrong_usage(command):
    assert main([command]) == 2


def test_an_encoder_that_comes_with_the_package_is_evaluated_in_a_folder_of_ones_own(tmp_path, capsys):
    few = ["--on", "mnist-small", "--map-images", "0", "--robustness-images", "0"]
    assert main(["evaluate", "zoo:mnist", *few]) == 1
    assert "is only read: kvicreg evaluate zoo:mnist --out DIR makes a run folder of it" in capsys.readouterr().err
    before = {file: file.read_bytes() for file in (ZOO / "mnist").iterdir()}
    own = tmp_path / "own"
    assert main(["evaluate", "zoo:mnist", "--out", str(own), *few]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"Results: {own / 'results-on-mnist-small.json'}")
    results = json.loads((own / "results-on-mnist-small.json").read_text())
    assert results["subjects"]["encoder"]["linear_probe"]["value"] > 0.97
    assert {file: file.read_bytes() for file in (ZOO / "mnist").iterdir()} == before


def test_a_folder_for_an_encoder_of_the_package_is_for_that_one_alone(run, tmp_path, capsys):
    assert main(["evaluate", str(run), "--out", str(tmp_path / "own")]) == 2
    assert "expected one zoo:NAME for --out" in capsys.readouterr().err
    assert main(["evaluate", "zoo:mnist", "--out", str(run)]) == 1
    assert f"{run} exists, and is no copy of zoo:mnist; choose another --out" in capsys.readouterr().err
    own = copied("zoo:mnist", tmp_path / "own")
    (own / "card.md").write_text("of an earlier version")
    assert (copied("zoo:mnist", own) / "card.md").read_text() == (ZOO / "mnist" / "card.md").read_text()


def test_no_folder_is_made_of_one_whose_images_are_not_there_nor_one_called_like_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "zoo:cifar10", "--out", "own", "--data-root", str(tmp_path)]) == 1
    assert "fetch it with: kvicreg data get cifar10" in capsys.readouterr().err
    assert main(["evaluate", "zoo:mnist", "--out", "zoo:cifar10", "--on", "mnist-small"]) == 1
    assert "out: expected a folder for the files of zoo:mnist, got zoo:cifar10" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
