"""Every table and figure by one command each, at smoke size, on files in the official formats."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import collapse_map, paper_tables
from experiments.__main__ import main
from experiments.common import Job
from experiments.common.experiment import load_all
from experiments.common.stand_ins import write_stand_ins
from experiments.common.subsets import STAND_INS
from experiments.paper_tables import Table1, Table2, Table3, beside_the_paper
from kvicreg.data import load

FILES = {  # what each writes: tables as md, csv and json, pictures as png and svg
    "table1": (["table1"], []),
    "table1-3-epochs": (["table1-3-epochs"], []),
    "table2": (["table2"], []),
    "table3": (["table3"], []),
    "mnist": (["mnist"], []),
    "peers": (["peers-mnist-small"], []),
    "neighbours": (["neighbours-family"], []),
    "own-images-rates": (["own-images-rates"], []),
    "own-images": (["own-images"], []),
    "zoo": (["zoo"], []),
    "compute": (["compute"], ["compute"]),
    "small-data": (["small-data"], ["small-data"]),
    "study": (["study"], ["study-cifar10"]),
    "defaults-vs-vicreg": (["defaults-vs-vicreg"], ["defaults-vs-vicreg", "defaults-vs-vicreg-grids"]),
    "collapse-map": (["collapse-map"], ["collapse-map"]),
    "figure-umap": (["figure-umap"], ["figure-umap"]),
    "figure-eigenvalues": (["figure-eigenvalues"], ["figure-eigenvalues"]),
    "figure-polynomial": (["figure-polynomial"], ["figure-polynomial"]),
    "figure-rbf": (["figure-rbf"], ["figure-rbf"]),
    "figure-latency": ([], ["bench-loss/latency", "bench-loss/memory"]),
    "default-encoder": ([], []),
    "fairness": ([], ["fairness/fairness"]),
    "pull": ([], ["pull"]),
    "selection": ([], ["selection/selection"]),
    "tables": ([], []),
    "theory": ([], ["theory-non-collapse"]),
}


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where all experiments of a process leave their runs, which they share, and results."""
    return tmp_path_factory.mktemp("experiments")


def smoke(folder: Path) -> Job:
    return Job("smoke", runs=folder / "runs", out=folder, say=quiet)


@pytest.mark.parametrize("name", FILES)
def test_at_smoke_size(name, folder):
    kind = load_all()[name]
    kind(**kind.few).run(smoke(folder))
    tables, pictures = FILES[name]
    for picture in pictures:
        assert (folder / f"{picture}.png").stat().st_size > 10_000, picture
        assert "<svg" in (folder / f"{picture}.svg").read_text(), picture
    for table in tables:
        written = json.loads((folder / f"{table}.json").read_text())
        with (folder / f"{table}.csv").open() as file:
            assert len(list(csv.DictReader(file))) == len(written["rows"]) > 0, table
        assert written["budget"] == "smoke"
        assert "made up" in (folder / f"{table}.md").read_text()
        for row in written["rows"]:  # every number has the settings of its run
            of_run = {"data", "holdout"} if row["method"] == "raw pixels" else {"data", "seed", "holdout"}
            assert of_run <= {*written["shared"], *row["config"]}, table


def test_table_1_has_all_methods_and_table_3_is_measured_elsewhere(folder):
    peers = {row.get("name") for row in Table1().run(smoke(folder)).rows}
    assert {*paper_tables.PEERS, *paper_tables.KERNELS[:2], "vicreg", "supervised"} <= peers
    assert {row["measured_on"] for row in Table3().run(smoke(folder)).rows} == {"stl10"}


def test_what_is_finished_is_not_run_again(folder):
    def encoders() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("encoder.safetensors")}

    Table2().run(smoke(folder))
    before = encoders()
    Table2().run(replace(smoke(folder), out=folder / "again"))
    assert before == encoders() != {}


def test_all_runs_every_experiment_in_its_turn(tmp_path, monkeypatch, capsys):
    assert set(FILES) == set(load_all())
    monkeypatch.setattr("experiments.__main__.load_all", lambda: {n: load_all()[n] for n in ("own-images", "zoo")})
    assert main(["all", "--budget", "smoke", "--runs", f"{tmp_path}/runs", "--out", f"{tmp_path}"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if line.startswith("---")] == ["--- 1/2 own-images", "--- 2/2 zoo"]
    assert out[-1] == f"Results: {tmp_path}"
    assert (tmp_path / "own-images.json").is_file()
    assert (tmp_path / "zoo.json").is_file()


def test_every_experiment_is_listed_with_what_it_does(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, experiment in load_all().items():
        assert any(line.startswith(f"{name} ") and experiment.summary() in line for line in lines)
        assert experiment.summary().endswith(".")
    assert main(["table4"]) == 2
    assert "did you mean 'table" in capsys.readouterr().err
    assert main(["table2", "--budget", "huge"]) == 2


def test_the_package_knows_nothing_of_its_experiments():
    package = Path(__file__).parents[2] / "kvicreg"
    lines = [line for path in package.rglob("*.py") for line in path.read_text().splitlines()]
    assert not [line for line in lines if line.strip().startswith(("import experiments", "from experiments"))]


def test_the_papers_numbers_are_where_they_belong():
    assert paper_tables.PAPER["stl10"]["rq"] == 72.34
    assert paper_tables.PAPER["tiny-imagenet"]["vicreg"] == "collapse"
    assert "barlow-twins" not in paper_tables.PAPER["tiny-imagenet"]
    row = {"method": "kernel-vicreg", "name": "rbf", "data": "cifar10", "probe": 0.8213, "config": {}}
    assert beside_the_paper(row)["difference"] == 1.0
    assert beside_the_paper({**row, "config": {"target": "stl10"}})["difference"] == 14.92
    assert beside_the_paper({**row, "name": "raw pixels"})["difference"] is None


@pytest.mark.parametrize("table", [Table1(), Table2(), Table3()])
def test_the_full_budget_is_the_shipped_recipes(table):
    cells = table.cells(table.prepared(Job("full", seeds=(0,))))
    for data, target, like in table.sources:
        here = [cell for cell in cells if (cell.settings.data.source, cell.target) == (data, target)]
        if like or target in STAND_INS:
            assert not here
            continue
        of = {(cell.labels["name"], cell.labels["form"]): cell.config for cell in here}
        printed, scaled = of["rq", "as printed"], of["rq", "scaled"]
        assert [printed[n] for n in ("encoder", "parametrization", "batch_size")] == ["resnet18", "paper", 512]
        assert (scaled["parametrization"], scaled["invariance_weight"]) == ("scaled", 1.0 if table.former else 2.0)
        assert ("simclr", "") in of or not table.with_peers


def test_missing_data_are_named_and_the_rest_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(paper_tables, "KERNELS", ("rq",))
    root = write_stand_ins(tmp_path / "data")
    (root / "stl10").rename(root / "gone")
    job = Job("smoke", runs=tmp_path / "runs", out=tmp_path, data_root=str(root), say=quiet)
    assert Table3().run(job).rows == []
    table = (tmp_path / "table3.md").read_text()
    assert "kvicreg data get stl10" in table
    assert json.loads((tmp_path / "table3.json").read_text())["rows"] == []


def test_stand_ins_are_read_by_the_real_loaders(tmp_path):
    root = write_stand_ins(tmp_path)
    shapes = {name: load(name, "train", root=root).shape for name in ("mnist", "fashion-mnist", "cifar10", "stl10")}
    assert set(shapes.values()) == {(1, 28, 28), (3, 32, 32), (3, 96, 96)}
    for name in (*shapes, "tiny-imagenet", "imagenet100"):
        for split in ("train", "test"):
            data = load(name, split, root=root)
            assert sorted(set(data.labels.tolist())) == list(range(10)), name


def test_real_slices_of_tiny_imagenet_and_photographs(tmp_path, monkeypatch):
    if "KVICREG_TEST_DATA" not in os.environ:
        pytest.skip("KVICREG_TEST_DATA names no folder of real images; the test above has generated ones")
    slices = Path(os.environ["KVICREG_TEST_DATA"])
    (tmp_path / "tiny-imagenet").symlink_to(slices / "tiny-imagenet-200")
    (tmp_path / "imagenet100").mkdir()
    for split in ("train", "val"):
        (tmp_path / "imagenet100" / split).symlink_to(slices / "photos" / split)
    classes = sorted(path.name for path in (slices / "photos" / "train").iterdir())
    (tmp_path / "imagenet100" / "classes.txt").write_text("\n".join(classes))
    monkeypatch.setattr(paper_tables, "KERNELS", ("rq",))
    monkeypatch.setattr(paper_tables, "PEERS", ("byol",))
    job = Job("smoke", runs=tmp_path / "runs", out=tmp_path, data_root=str(tmp_path), say=quiet)
    rows = Table1().run(job).rows
    assert {row["data"] for row in rows if row["method"] == "byol"} == {"imagenet100"}
    assert {row["data"] for row in rows if row.get("form") == "scaled"} == {"imagenet100", "tiny-imagenet"}
    assert "made up" not in (tmp_path / "table1.md").read_text()


def test_a_weak_variance_weight_is_relative_to_each_methods_own():
    assert collapse_map.setting_of("variance weight", 0.1, {"method": "vicreg"}) == {"variance_weight": 2.5}
    assert collapse_map.setting_of("variance weight", 1, {"kernel": "rbf"}) == {}
