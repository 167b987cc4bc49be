"""A study ends in one ranking, whatever happens on the way: interruptions, several workers, candidates that fail."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvicreg.data import load
from kvicreg.runs import RunFolder, Settings
from kvicreg.selection import select as module
from kvicreg.selection.board import ATTEMPTS, Board
from kvicreg.selection.options import SelectOptions
from kvicreg.selection.select import ranking_lines, resume, select
from kvicreg.selection.study import open_study, start_study, write_ranking
from kvicreg.training.build import build_views, resolve

OPTIONS = SelectOptions(budget="30steps", candidates=("candidates.yaml",), criterion="combination", full=False)
CANDIDATES = """
linear: {kernel: linear}
rbf: {kernel: rbf}
rq: {kernel: rq}
laplacian: {kernel: laplacian}
diverges: {kernel: linear, learning_rate: 1.0e+30, warmup_epochs: 0}
impossible: {kernel: rbf, encoder: 'timm:no-such-model'}
"""
SETTINGS = Settings.of(
    data="mnist-small", images=96, batch_size=32, width=0.25, pool=1, projector_hidden=16, projector_outputs=16,
    spectrum_images=32, epochs=4, accelerator="cpu",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def candidates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("candidates")
    (folder / "candidates.yaml").write_text(CANDIDATES)
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="module")
def expected(tmp_path_factory, candidates):
    """The ranking of a study that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "study"
    _, ranking = select(folder, SETTINGS, OPTIONS, quiet=True, say=lambda line: None)
    return {**ranking, "as returned": ranking, "folder": str(folder)}


def same(ranking, folder, expected):
    """Whether two rankings are one, where they lie apart."""
    there, here = json.dumps(ranking), json.dumps(expected["as returned"])
    return there.replace(str(folder), "STUDY") == here.replace(expected["folder"], "STUDY")


def test_failures_are_recorded_and_rank_last(expected):
    rows = expected["ranking"]
    assert [row["candidate"] for row in rows[-2:]] == ["diverges", "impossible"]
    assert "NotFinite" in rows[-2]["error"]
    assert "timm" in rows[-1]["error"]
    assert all(row["error"] is None and row["score"] is not None for row in rows[:-2])
    assert expected["winner"] == rows[0]["candidate"]
    assert "Could not be trained: diverges, impossible." in expected["advice"]


def test_the_best_half_goes_on(expected):
    steps = [row["steps"] for row in expected["ranking"][:-2]]
    assert [rung["candidates"] for rung in expected["rungs"]] == [6, 3]
    assert steps == [expected["rungs"][1]["steps"]] * 3 + [expected["rungs"][0]["steps"]]


def test_interrupted_at_every_unit_and_resumed_it_ends_the_same(expected, tmp_path, monkeypatch):
    folder, advance = tmp_path / "study", module.advance
    start_study(folder, SETTINGS, OPTIONS)
    interruptions, lines = 0, []
    for _ in range(20):

        def once(*args, **kwargs):
            monkeypatch.setattr(module, "advance", interrupted)
            return advance(*args, **kwargs)

        def interrupted(*args, **kwargs):
            raise KeyboardInterrupt

        monkeypatch.setattr(module, "advance", once)
        try:
            _, ranking = resume(folder, quiet=True, say=lines.append)
            break
        except KeyboardInterrupt:
            interruptions += 1
    assert interruptions >= 5
    assert lines.count(f"Stopped. Continue with: kvicreg select --resume {folder}") == interruptions
    assert same(ranking, folder, expected)


def test_sigterm_interrupts_a_training_and_its_candidate_is_not_to_blame(expected, tmp_path, monkeypatch):
    folder = tmp_path / "study"
    study = start_study(folder, SETTINGS, OPTIONS)
    handler = signal.getsignal(signal.SIGTERM)

    class Terminate(module._Beat):
        def on_train_batch_end(self, *_):
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_Beat", Terminate)
        with pytest.raises(KeyboardInterrupt):
            resume(folder, quiet=True, say=lambda line: None)
    assert signal.getsignal(signal.SIGTERM) is handler
    units = Board(folder, study.names, len(study.rungs)).units(0, study.names)
    assert {unit.state for unit in units} == {"new"}
    _, ranking = resume(folder, quiet=True, say=lambda line: None)
    assert same(ranking, folder, expected)


@pytest.mark.slow
def test_two_processes_share_a_study_and_end_the_same(expected, tmp_path):
    folder = tmp_path / "study"
    start_study(folder, SETTINGS, OPTIONS)
    command = [sys.executable, "-m", "kvicreg", "select", "--resume", str(folder)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [worker.communicate(timeout=500) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    assert same(json.loads((folder / "selection.json").read_text()), folder, expected)
    assert "kvicreg train --resume" in outputs[0][0].splitlines()[-1]


def test_a_unit_is_taken_once(tmp_path):
    one, two = (Board(tmp_path, ["a", "b"], 2) for _ in range(2))
    (unit,) = one.units(0, ["a"])
    assert unit.state == "new"
    trial = one.take(unit)
    assert trial is not None
    assert two.take(unit) is None
    assert two.units(0, ["a", "b"])[0].state == "running"
    one.done(trial, {"criteria": {}}, 1.0)
    assert two.units(0, ["a"])[0].state == "done"


def test_the_unit_of_a_process_that_died_is_free_again_but_not_for_ever(tmp_path):
    board = Board(tmp_path, ["a"], 2)
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    for attempt in range(ATTEMPTS):
        (unit,) = board.units(0, ["a"])
        assert unit.state == "new", attempt
        trial = board.take(unit)
        board._storage.set_trial_user_attr(trial, "worker", board._me.split(":")[0] + ":" + dead.stdout.strip())
    (unit,) = board.units(0, ["a"])
    assert unit.state == "failed"
    assert "has died 3 times" in unit.error


def test_mistakes_are_named(tmp_path):
    start_study(tmp_path / "study", SETTINGS, OPTIONS)
    with pytest.raises(FileExistsError, match="join it with --resume"):
        start_study(tmp_path / "study", SETTINGS, OPTIONS)
    with pytest.raises(FileNotFoundError, match="is not a study"):
        open_study(tmp_path / "nothing")
    with pytest.raises(ValueError, match="need at least 9 steps"):
        start_study(tmp_path / "other", SETTINGS, OPTIONS.replace(budget="5steps"))
    with pytest.raises(ValueError, match="the method simclr has no kernel to choose"):
        start_study(tmp_path / "other", Settings.of(method="simclr"), SelectOptions())
    with pytest.raises(ValueError, match="kernel can't be given to all candidates: they choose it"):
        start_study(tmp_path / "other", SETTINGS.replace(kernel="linear"), OPTIONS)


@pytest.mark.parametrize("content", ["candidates: [a]", "rungs: 1", "[1, 2", "candidates: {a: 3}\nrungs: []"])
def test_a_damaged_study_is_told(tmp_path, content):
    (tmp_path / "study.yaml").write_text(content)
    with pytest.raises(ValueError, match=r"study\.yaml is damaged"):
        open_study(tmp_path)


def test_criteria_that_are_not_finite_are_written_as_null(tmp_path):
    study = start_study(tmp_path / "study", SETTINGS, OPTIONS)
    row = {"candidate": "rbf", "steps": 3, "score": 1.0, "criteria": {"alpha": -float("inf")}, "error": None}
    ranking = {"criterion": "combination", "winner": "rbf", "ranking": [row]}
    write_ranking(study, ranking)
    assert json.loads(study.ranking_path.read_text())["ranking"][0]["criteria"] == {"alpha": None}


def test_the_ranking_in_lines(expected):
    lines = ranking_lines(expected)
    assert lines[0].startswith(expected["winner"])
    assert "failed: NotFinite" in lines[-2]


@pytest.mark.parametrize("changes", [{}, {"encoder": "resnet18"}, {"precision": "auto"}, {"method": "supervised"}])
def test_a_run_agrees_with_the_settings_it_was_made_from_and_with_no_others(tmp_path, changes):
    settings = Settings.of(data="mnist-small", images=96, batch_size=32, **changes)
    data = load("mnist-small")
    run = RunFolder(tmp_path)
    run.write_settings(resolve(settings.replace(out=str(tmp_path)), data, build_views(settings, data)))
    assert settings.agrees_with(run.settings)
    assert settings.replace(views="auto", data_root=str(tmp_path)).agrees_with(run.settings)
    for other in ({"epochs": 3}, {"learning_rate": 0.5}, {"rotation": 3.0}, {"image_size": 8}):
        assert not settings.replace(**other).agrees_with(run.settings), other
