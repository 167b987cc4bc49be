"""kvicreg evaluate, report and export from the command line: last lines, exit codes, no traceback."""

import json

import pytest

from kvicreg.cli import main
from kvicreg.evaluation.evaluate import Options, evaluate


@pytest.fixture(scope="module")
def run(tmp_path_factory, make_run):
    folder = make_run(tmp_path_factory.mktemp("runs") / "one")
    evaluate(folder, Options(map_images=0, robustness_images=0), command="once")
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
