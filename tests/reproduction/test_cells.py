"""Cells of a table: trained once, resumed or skipped, scored on images that training never saw."""

import json
from dataclasses import replace

import pytest
from kvicreg.training.config import TrainConfig

from kvicreg.losses import kernel_vicreg
from kvicreg.reproduction import cells, tables
from kvicreg.reproduction.cells import Cell, controls, run_cells, splits
from kvicreg.reproduction.known import known_rows, restore
from kvicreg.training.alarm import NotFinite

TINY = TrainConfig(
    data="digits", image_size=16, images=300, holdout=200, epochs=1, batch_size=64, width=0.25, pool=1,
    projector_layers=2, projector_hidden=32, projector_outputs=32, probe_images=0, spectrum_images=32,
)  # fmt: skip


def quiet(_: str) -> None:
    pass


def test_a_finished_cell_is_skipped_and_a_changed_one_is_run_again(tmp_path, monkeypatch):
    cell = Cell("one", TINY, {"kernel name": "RBF"}, probe_images=200)
    (row,) = run_cells([cell], tmp_path, on="validation", say=quiet)
    assert row["kernel name"] == "RBF"
    assert row["scored_on"] == 200
    assert 0 <= row["probe_low"] <= row["probe"] <= row["probe_high"] <= 1

    ran = []
    real = cells.train
    monkeypatch.setattr(cells, "train", lambda config, **more: ran.append(config) or real(config, **more))
    assert run_cells([cell], tmp_path, on="validation", say=quiet) == [row]
    assert ran == []
    run_cells([cell], tmp_path, on="test", say=quiet)  # another measurement of the same run
    assert ran == []
    run_cells([replace(cell, config=replace(TINY, seed=1))], tmp_path, on="validation", say=quiet)
    assert [config.seed for config in ran] == [1]


def test_parts_share_the_cells_and_the_table_has_what_is_finished(tmp_path):
    table = [Cell(f"seed-{seed}", replace(TINY, seed=seed), probe_images=200) for seed in (0, 1)]
    first = run_cells(table, tmp_path, on="validation", part=(0, 2), say=quiet)
    assert [row["seed"] for row in first] == [0]
    both = run_cells(table, tmp_path, on="validation", part=(1, 2), say=quiet)
    assert [row["seed"] for row in both] == [0, 1]


def test_a_cell_cut_short_is_resumed(tmp_path, monkeypatch):
    cell = Cell("one", replace(TINY, epochs=2), probe_images=200)
    (whole,) = run_cells([cell], tmp_path / "whole", on="validation", say=quiet)

    class Cut(RuntimeError):
        pass

    def stop_after_one_epoch(config, **more):
        import lightning.pytorch as pl

        class Stop(pl.Callback):
            def on_train_epoch_start(self, trainer, module):
                if trainer.current_epoch == 1:
                    raise Cut

        return real(config, callbacks=[Stop()], **more)

    real = cells.train
    monkeypatch.setattr(cells, "train", stop_after_one_epoch)
    with pytest.raises(Cut):
        run_cells([cell], tmp_path / "cut", on="validation", say=quiet)
    resumed = []
    monkeypatch.setattr(cells, "train", lambda c, **more: resumed.append(more["resume"]) or real(c, **more))
    (row,) = run_cells([cell], tmp_path / "cut", on="validation", say=quiet)
    assert resumed == [True]
    assert row["probe"] == whole["probe"]


def test_controls_are_measured_once(tmp_path):
    rows = controls(TINY, tmp_path, on="validation", probe_images=200)
    assert [row["method"] for row in rows] == ["raw pixels", "random encoder"]
    kept = next(iter((tmp_path / "controls").glob("*random*")))
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "probe": 2.0}))
    assert controls(TINY, tmp_path, on="validation", probe_images=200)[1]["probe"] == 2.0


def test_probes_are_fitted_on_images_other_than_those_scored():
    fit, score = splits(TINY, "validation", 500)
    known = {image.numpy().tobytes() for image in fit.images}
    assert not known & {image.numpy().tobytes() for image in score.images}


def test_two_cells_of_one_name_are_refused_unless_they_are_the_same(tmp_path):
    with pytest.raises(ValueError, match="two cells of different settings are called 'one'"):
        run_cells([Cell("one", TINY), Cell("one", replace(TINY, seed=1))], tmp_path, on="test")
    said = []
    twice = [Cell("one", TINY, {"grid": grid}, probe_images=100) for grid in ("a", "b")]
    rows = run_cells(twice, tmp_path, on="validation", say=said.append)
    assert [row["grid"] for row in rows] == ["a", "b"]
    assert len(said) == 1


def test_a_new_default_of_the_loss_is_another_setting(tmp_path, monkeypatch):
    cell = Cell("one", TINY, probe_images=100)
    (row,) = run_cells([cell], tmp_path, on="validation", say=quiet)
    monkeypatch.setitem(kernel_vicreg.DEFAULT_WEIGHTS, "scaled", (2.0, 1.0, 0.0))
    assert cells.finished(cell, tmp_path, "validation") is None
    (again,) = run_cells([cell], tmp_path, on="validation", say=quiet)
    assert (row["config"]["invariance_weight"], again["config"]["invariance_weight"]) == (1.0, 2.0)
    assert "invariance_weight: 2.0" in (tmp_path / "one" / "config.yaml").read_text()


def test_a_setting_that_came_later_does_not_undo_a_cell_that_leaves_it_alone(tmp_path):
    cell = Cell("one", TINY, probe_images=100)
    (row,) = run_cells([cell], tmp_path, on="validation", say=quiet)
    old = {**row, "config": {key: value for key, value in row["config"].items() if key != "clip"}}
    cell.result(tmp_path, "validation").write_text(json.dumps(old))
    assert cells.finished(cell, tmp_path, "validation") is not None
    assert cells.finished(replace(cell, config=replace(TINY, clip=1.0)), tmp_path, "validation") is None


def test_a_cell_that_another_process_works_on_is_left_to_it(tmp_path, monkeypatch):
    real = cells.train

    def busy(config, **more):
        if config.seed == 0:
            raise BlockingIOError("in use by kvicreg train, process 1")
        return real(config, **more)

    monkeypatch.setattr(cells, "train", busy)
    said = []
    both = [Cell(f"seed-{seed}", replace(TINY, seed=seed), probe_images=100) for seed in (0, 1)]
    rows = run_cells(both, tmp_path, on="validation", say=said.append)
    assert [row["seed"] for row in rows] == [1]
    assert "seed-0 is left to another process: in use by" in said[0]


def test_training_that_is_not_finite_is_a_result(tmp_path, monkeypatch):
    def diverge(config, **_):
        config.folder.mkdir()
        raise NotFinite("the loss is not finite")

    monkeypatch.setattr(cells, "train", diverge)
    (row,) = run_cells([Cell("one", TINY)], tmp_path, on="validation", say=quiet)
    assert row["failed"] == "the loss is not finite"
    assert "probe" not in row


def test_validation_without_a_holdout_is_refused():
    with pytest.raises(ValueError, match="holdout: validation needs images set aside"):
        splits(replace(TINY, holdout=0), "validation")


def test_a_table_is_continued_from_its_file_alone(tmp_path, monkeypatch):
    quick = replace(TINY, precision="auto")
    table = [Cell(f"seed-{seed}", replace(quick, seed=seed), {"label": seed}, probe_images=100) for seed in (0, 1)]
    rows = run_cells(table[:1], tmp_path / "there", on="validation", say=quiet)
    rows[0]["config"]["precision"] = "bf16-mixed"  # that machine's own
    tables.write(tmp_path / "out", "table", rows, "")
    (tmp_path / "out" / "of-others.json").write_text("[1, 2]")

    here, ran = tmp_path / "here", []
    real = cells.train
    monkeypatch.setattr(cells, "train", lambda config, **more: ran.append(config.seed) or real(config, **more))
    restore(table, here, known_rows(tmp_path / "out", "validation"), on="validation")
    again = run_cells(table, here, on="validation", say=quiet)
    assert ran == [1]
    assert [row["label"] for row in again] == [0, 1]
    assert again[0] == rows[0]
    assert run_cells(table, here, on="validation", say=quiet) == again
    assert run_cells(table[:1], here, on="validation", folders=True, say=quiet)[0]["probe"] == rows[0]["probe"]
    assert ran == [1, 0]  # whoever needs the run folder gets it


def test_rows_of_other_settings_are_not_taken_up(tmp_path):
    cell = Cell("one", TINY, probe_images=100)
    tables.write(tmp_path / "out", "table", run_cells([cell], tmp_path / "there", on="validation", say=quiet), "")
    others = [
        replace(cell, config=replace(TINY, threshold=1.0)),
        replace(cell, config=replace(TINY, precision="64-true")),
    ]
    for other in (*others, replace(cell, probe_images=50)):
        restore([other], tmp_path / "here", known_rows(tmp_path / "out", "validation"), on="validation")
        assert cells.finished(other, tmp_path / "here", "validation") is None
    restore([cell], tmp_path / "here", known_rows(tmp_path / "out", "test"), on="test")
    assert cells.finished(cell, tmp_path / "here", "test") is None


def test_controls_of_a_table_are_not_measured_again(tmp_path, monkeypatch):
    rows = controls(TINY, tmp_path, on="validation", probe_images=100)
    tables.write(tmp_path / "out", "table", rows, "")
    monkeypatch.setattr(cells, "_measure", lambda *_: pytest.fail("measured again"))
    known = known_rows(tmp_path / "out", "validation")
    assert controls(TINY, tmp_path / "here", on="validation", probe_images=100, known=known) == rows
