"""Runs on the same images share them and their controls; an evaluation says how far it is; robustness has a budget."""

import contextlib
import io
import json
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
import torch

from kvicreg.cli import main
from kvicreg.data import ArrayData
from kvicreg.evaluation.evaluate import EvaluationOptions, evaluate
from kvicreg.evaluation.labelled import shared_key, shifted_rows
from kvicreg.evaluation.parts import parts_of
from kvicreg.evaluation.probes import sgd_probe
from kvicreg.evaluation.progress import Part, Progress, on_screen
from kvicreg.evaluation.robustness import PASSES
from kvicreg.evaluation.session import Session, Shared
from kvicreg.evaluation.subjects import subjects_of
from kvicreg.runs import RunFolder

QUICK = {"map_images": 0, "robustness_images": 20}


@pytest.fixture(scope="module", autouse=True)
def short_probe():
    """The SGD probe in one epoch: it is the longest part of so small an evaluation, and not what is tested here."""
    with patch("kvicreg.evaluation.labelled.sgd_probe", partial(sgd_probe, epochs=1)):
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory, make_run):
    root = tmp_path_factory.mktemp("runs")
    return [make_run(root / "one"), make_run(root / "two", seed=5)]


@pytest.fixture(scope="module")
def printed(runs):
    """What `kvicreg evaluate` of two runs writes to the standard error, which is no terminal."""
    lines = io.StringIO()
    with contextlib.redirect_stderr(lines), contextlib.redirect_stdout(io.StringIO()):
        assert main(["evaluate", *map(str, runs), "--map-images", "0", "--robustness-images", "20"]) == 0
    return lines.getvalue().splitlines()


def test_two_runs_of_the_same_data_share_their_controls(printed):
    for control in ("raw pixels", "random encoder"):
        for part in ("features", "probes", "robustness"):
            assert sum(line.startswith(f"{part}: {control}") for line in printed) == 1
    assert sum(line.startswith("probes: encoder") for line in printed) == 2


def test_every_part_is_told_with_the_time_that_is_left(printed):
    assert printed
    assert all(line.endswith(" left)") and "about" in line for line in printed)
    assert printed[-1].startswith("robustness: encoder")


def test_a_shared_control_has_the_numbers_of_one_measured_alone(runs, printed):
    together = json.loads((runs[1] / "results.json").read_text())
    alone = evaluate(runs[1], EvaluationOptions(**QUICK))
    for name in ("raw pixels", "random encoder"):
        assert together["subjects"][name]["linear_probe"]["value"] == pytest.approx(
            alone["subjects"][name]["linear_probe"]["value"]
        )
    assert together["against"]["raw pixels"]["knn"]["difference"] == pytest.approx(
        alone["against"]["raw pixels"]["knn"]["difference"]
    )


def test_controls_of_other_images_or_another_seed_are_not_taken(runs):
    keys, shared, opened = set(), Shared(), []
    for options in (
        EvaluationOptions(**QUICK),
        EvaluationOptions(**QUICK, seed=1),
        EvaluationOptions(**QUICK, on="mnist-small"),
        EvaluationOptions(),
    ):
        session = Session(RunFolder(runs[0]), options, shared=shared)
        opened.append(session.data)
        keys |= {shared_key(session, subject) for subject in subjects_of(session) if subject.is_shared}
    assert len(keys) == 4 * 2
    assert opened[3] is opened[0]
    assert opened[1] is not opened[0], "another seed may hold out other images"


def test_features_of_raw_pixels_take_no_place_on_disk(runs, printed):
    widths = {np.load(path, mmap_mode="r").shape[1] for path in (runs[0] / "evaluation" / "features").glob("*.npy")}
    assert 16 * 16 not in widths
    assert widths


@pytest.mark.parametrize(
    ("train", "test", "count"), [(100, 60, 60), (1000, 600, 200), (26 * 700 - 900, 900, 700), (90_000, 9000, 2000)]
)
def test_robustness_costs_no_more_than_the_features(runs, train, test, count, monkeypatch):
    session = Session(RunFolder(runs[0]), EvaluationOptions())
    images = [ArrayData(torch.zeros(n, 1, 1, 1, dtype=torch.uint8)) for n in (train, test)]
    monkeypatch.setattr(session, "data", type(session.data)("made up", *images, adaptation=""))
    assert len(shifted_rows(session)) == count


def test_the_plan_has_the_parts_that_come(runs, printed):
    session = Session(RunFolder(runs[0]), EvaluationOptions(**QUICK))
    begins = [i for i, line in enumerate(printed) if line.startswith("evaluating")]
    parts = {line.split(" ...")[0] for line in printed[1 : begins[1]]} - {"diagnostics"}
    assert set(parts_of(session)) == parts
    assert parts_of(session)["robustness: encoder"].units == 20 * PASSES
    shared = {name for name, part in parts_of(session).items() if part.is_shared}
    assert shared == {name for name in parts if name.endswith(("raw pixels", "random encoder"))}


def test_time_left_goes_by_the_speed_so_far_and_counts_later_runs(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines = []
    progress = Progress(lines.append, runs=2)
    progress.begin("one", {"a": Part("images", 100), "b": Part("images", 100), "c": Part("images", 50, is_shared=True)})
    with progress.part("a"):
        progress.advance("a", 100)
        now[0] = 10.0
    assert progress.left == pytest.approx(0.1 * (100 + 50 + 200)), "b and c, then a and b of the second run"
    with progress.part("b"):
        now[0] = 40.0
        progress.advance("b", 50)
        assert lines[-1].startswith("b ... (about ")
    assert progress.seconds == {"a": 10.0, "b": 30.0}


def test_a_part_that_does_not_say_how_far_it_is_is_told_again_with_less_time_left(monkeypatch, wait_for):
    monkeypatch.setattr("kvicreg.evaluation.progress.EVERY", 0.01)
    lines = []
    progress = Progress(lines.append)
    progress.begin("one", {"map": Part("map", 1), "features": Part("images", 1000)})
    before = progress.left
    with progress.part("map", "map of 3 images"):
        wait_for(lambda: len(lines) > 5)
        assert progress.left < before
    assert all(line.startswith("map of 3 images ... (about ") for line in lines[1:])


def test_features_from_a_file_do_not_count_as_speed(monkeypatch):
    progress = Progress()
    progress.begin("one", {"a": Part("images", 10**6), "b": Part("images", 1000)})
    before = progress.left
    with progress.part("a"):
        pass
    assert progress.left == pytest.approx(before * 1000 / (10**6 + 1000))


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_is_a_bar_with_the_time_left(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    with on_screen(runs=1) as progress:
        progress.begin("one", {"probes: encoder": Part("map", 4)})
        with progress.part("probes: encoder"):
            progress.advance("probes: encoder", 2)
    assert "probes: encoder" in screen.getvalue()
    assert "about 60 seconds left" in screen.getvalue()
    assert "━" in screen.getvalue()
