"""The committed results are those of the experiments as they stand: nothing that a file has is run again.

Each table is made once more from its file alone, by the command that made it, on a machine without the data.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.common import Job, versions
from experiments.common.cells import identity_of
from experiments.common.correct import SCORES, key_of, read_correct
from experiments.common.experiment import Experiment, load_all
from kvicreg.benchmarks import measure
from kvicreg.benchmarks.measure import code_hash, write_result
from kvicreg.evaluation import probes

RESULTS = Path(__file__).parents[2] / "docs" / "results"
COMMANDS = {
    "table1": ("table1", {}, ()),
    "table1-3-epochs": ("table1-3-epochs", {}, ()),
    "table2": ("table2", {}, (0,)),
    "table3": ("table3", {}, ()),
    "mnist": ("mnist", {}, ()),
    "mnist-elastic-10-epochs": ("mnist", {"epochs": 10, "elastic": 0.08, "names": ("linear",)}, (0,)),
    "mnist-4-epochs": ("mnist", {"epochs": 4, "names": ("linear", "vicreg, published")}, (0,)),
    "figure-umap": ("figure-umap", {}, ()),
    "figure-eigenvalues": ("figure-eigenvalues", {}, ()),
    "figure-polynomial": ("figure-polynomial", {}, (0,)),
    "figure-rbf": ("figure-rbf", {}, (0,)),
    "collapse-map": ("collapse-map", {}, ()),
    "study": ("study", {}, ()),
    "compute": ("compute", {}, ()),
    "resnet18-compute": (
        "compute",
        {"encoder": "resnet18", "epochs": (8, 16), "only_names": ("rbf", "vicreg, published")},
        (0,),
    ),
    "small-data": ("small-data", {"forms": ("linear", "rbf")}, ()),
    "defaults-vs-vicreg": ("defaults-vs-vicreg", {}, ()),
    "neighbours-weights": ("neighbours", {"topic": "weights", "data": ("photos",)}, (0,)),
    "neighbours-batches": ("neighbours", {"topic": "batches", "data": ("photos",)}, (0,)),
    "neighbours-threshold": ("neighbours", {"topic": "threshold", "data": ("cifar10",)}, (0,)),
    "neighbours-spectrum": ("neighbours", {"topic": "spectrum"}, ()),
    "neighbours-family": ("neighbours", {"topic": "family"}, ()),
    "neighbours-constants": ("neighbours", {"topic": "constants", "data": ("cifar10",)}, (0,)),
    "neighbours-views": ("neighbours", {"topic": "views"}, ()),
    "zoo": ("zoo", {}, ()),
    "peers-mnist": ("peers", {"data": "mnist", "images": 55_000, "epochs": 3}, ()),
    "peers-mnist-small": ("peers", {"data": "mnist-small", "images": 7_000, "holdout": 1_000, "epochs": 3}, ()),
}
"""File, experiment, its flags and seeds; others are not asked for any more."""
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the package without its documents")


def in_order(row):
    return str(
        [row["method"], row["kernel"], row["on"], {k: v for k, v in row.items() if k not in ("config", "fingerprint")}]
    )


class Trained(Exception):
    """Something was about to be run."""


@pytest.fixture
def job(tmp_path, monkeypatch):
    def measured(self, job, cell):
        raise Trained(f"{cell.labels} {cell.config}")

    monkeypatch.setattr(Experiment, "measured", measured)
    for path in (*RESULTS.glob("*.json"), *RESULTS.glob("*-correct.npz")):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(Experiment, "figure", lambda *_: None)
    for experiment in load_all().values():
        monkeypatch.setattr(experiment, "figure", lambda *_: None)
    return Job(runs=tmp_path / "runs", out=tmp_path, say=lambda _: None)


@pytest.mark.parametrize("stem", COMMANDS)
def test_a_table_is_made_from_its_file_alone(stem, job):
    name, flags, seeds = COMMANDS[stem]
    before = json.loads((RESULTS / f"{stem}.json").read_text())
    rows = before["rows"]
    load_all()[name](**flags).run(replace(job, seeds=seeds))
    after = json.loads((job.out / f"{stem}.json").read_text())
    for kind in ("md", "csv"):
        assert (job.out / f"{stem}.{kind}").read_text() == (RESULTS / f"{stem}.{kind}").read_text()
    for now, then in zip(*(sorted(some, key=in_order) for some in (after["rows"], rows)), strict=True):
        assert {k: v for k, v in now.items() if k != "config"} == {k: v for k, v in then.items() if k != "config"}
        settings = {**before["shared"], **then["config"]}
        if now["method"] not in ("raw pixels", "random encoder"):
            assert {**after["shared"], **now["config"]} == settings


@pytest.mark.parametrize("stem", [path.name.removesuffix("-correct.npz") for path in RESULTS.glob("*-correct.npz")])
def test_which_images_were_right_is_of_the_runs_whose_scores_are_told(stem, job):
    name, flags, seeds = COMMANDS[stem]
    result = load_all()[name](**flags).run(replace(job, seeds=seeds))
    rows = {identity_of(row): row for row in result.trained}
    told = {key_of(cell, score): rows[cell.identity][score] for cell in result.finished for score in SCORES}
    right = {key: images.mean() for key, images in read_correct(RESULTS / f"{stem}-correct.npz").items()}
    assert right == pytest.approx({key: told[key] for key in right}, abs=1e-6)


@pytest.mark.parametrize("name", ["selection", "fairness"])
def test_a_folder_of_results_is_continued_too(name, job):
    shutil.copytree(RESULTS / name, job.out / name)
    load_all()[name]().run(job)
    for path in (RESULTS / name).glob("*.json"):
        assert (job.out / name / path.name).read_text() == path.read_text()


def test_a_setting_that_nothing_reads_any_more_does_not_count(job, monkeypatch):
    monkeypatch.setattr(Job, "has", lambda self, data: True)
    path = job.out / "table2.json"
    table = json.loads(path.read_text())
    table["shared"]["momentum"] = 0.5  # of an optimizer that was not used
    path.write_text(json.dumps(table))
    for other in job.out.glob("*.json"):
        if other != path:
            other.unlink()
    load_all()["table2"]().run(replace(job, seeds=(0,)))
    table["shared"]["learning_rate"] = 0.5
    path.write_text(json.dumps(table))
    with pytest.raises(Trained):
        load_all()["table2"]().run(replace(job, seeds=(0,)))


def test_a_row_says_which_code_it_is_of(tmp_path):
    shutil.copy(RESULTS / "table2.json", tmp_path)
    table = json.loads((tmp_path / "table2.json").read_text())
    assert versions.statuses(tmp_path / "table2.json") == {"current": len(table["rows"])}
    assert versions.remark(tmp_path / "table2.json") == ""

    del table["rows"][0]["fingerprint"]
    loss, *rest = table["rows"][-1]["fingerprint"].split()
    table["rows"][-1]["fingerprint"] = " ".join([f"{1.01 * float(loss)}", *rest])
    (tmp_path / "table2.json").write_text(json.dumps(table))
    count = versions.statuses(tmp_path / "table2.json")
    assert (count["stale"], count["unknown version"]) == (1, 1)
    assert "1 of 24 rows: stale" in versions.remark(tmp_path / "table2.json")


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({"threshold": 1.4}, True),
        ({"kernel": "laplacian"}, True),
        ({"method": "vicreg"}, True),
        ({"data": "cifar10"}, True),  # which has other views
        ({"encoder": "resnet18", "stem": "small"}, True),
        ({"projector_layers": 2}, True),
        ({"optimizer": "sgd"}, True),
        ({"learning_rate": 0.01}, True),
        ({"warmup_epochs": 4}, True),
        ({"local_crops": 2}, True),
        ({"seed": 3, "batch_size": 256, "out": "elsewhere"}, False),
        ({"spread_weight": None, "momentum": 0.3}, False),  # names of former times, and settings that nothing reads
    ],
)
def test_a_fingerprint_is_of_all_that_a_step_of_training_depends_on(change, moved):
    config = {"data": "mnist", "kernel": "rbf", "epochs": 6, "spectrum": "per-view"}
    row = {"method": "kernel-vicreg", "config": config}
    before, after = versions.fingerprint(row), versions.fingerprint({**row, "config": {**row["config"], **change}})
    assert versions.agrees(before, after) != moved
    if not moved:
        assert before == after


def test_other_local_crops_make_rows_stale_that_had_them():
    row = {"method": "swav", "config": {"method": "swav", "data": "mnist", "local_crops": 2, "local_crop_area": 0.14}}
    other = {**row, "config": {**row["config"], "local_crop_area": 0.4}}
    assert not versions.agrees(versions.fingerprint(row), versions.fingerprint(other))


def test_a_row_without_the_last_numbers_is_judged_by_the_others(tmp_path):
    row = {"method": "vicreg", "config": {"method": "vicreg", "data": "mnist"}}
    whole, short = versions.fingerprint(row), versions.fingerprint(row, moved=False)
    assert whole.startswith(f"{short} ")
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"rows": [{**row, "fingerprint": mark} for mark in (whole, short, f"{short} 9 9")]}))
    assert versions.statuses(path) == {"current": 2, "stale": 1}


def test_the_plain_command_on_photographs_is_of_the_code_of_today():
    assert versions.statuses(RESULTS / "bench-photographs.json") == {"current": 1}


def test_times_are_of_the_code_of_the_folders_that_they_depend_on(tmp_path, monkeypatch):
    path = tmp_path / "bench-views.json"
    write_result(path, {"what": "seconds of views"}, of=("data",), rows=[1, 2])
    assert versions.statuses(path) == {"current": 1}
    monkeypatch.setattr(measure, "code_hash", lambda folder: "other" if folder == "losses" else code_hash(folder))
    assert versions.statuses(path) == {"current": 1}
    monkeypatch.setattr(measure, "code_hash", lambda folder: "other" if folder == "data" else code_hash(folder))
    assert versions.statuses(path) == {"stale": 1}
    path.write_text("{}")
    assert versions.statuses(path) == {"unknown version": 1}


def test_a_change_of_the_probe_makes_every_row_stale(monkeypatch):
    row = {"method": "raw pixels", "config": {"data": "mnist"}}
    before = versions.fingerprint(row)
    versions._probes.cache_clear()
    monkeypatch.setattr(versions, "knn", lambda *a, k: probes.knn(*a, k=1))
    assert not versions.agrees(before, versions.fingerprint(row))
    versions._probes.cache_clear()
