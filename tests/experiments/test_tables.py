"""The study of tables: what is compared, that labels of test rows are not used, and that it goes on where it was."""

import json

import numpy as np
import pytest

from experiments import tables
from experiments.common import Job, versions


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_table_is_numbers_and_classes(name):
    X, y = tables.read_table(name)
    assert X.dtype == np.float32
    assert np.isfinite(X).all()
    assert len(X) == len(y) > 100
    assert set(y) == set(range(y.max() + 1))


def test_rows_are_shared_out_without_overlap():
    X, _ = tables.read_table("wine")
    for train, _, test, labels in tables.Tables().splits("wine", seed=0):
        assert len(train) + len(test) == len(X)
        assert not {tuple(row) for row in train} & {tuple(row) for row in test}
        assert len(set(labels)) == 3


def test_a_tenth_of_the_labels_has_every_class():
    y = np.repeat([0, 1, 2], [100, 50, 5])
    rows = tables.first_of_each(y, 0.1, seed=0)
    assert np.bincount(y[rows]).tolist() == [10, 5, 2]
    assert len(tables.first_of_each(y, 1.0, seed=0)) == 155


@pytest.fixture
def quick(monkeypatch):
    of_method = tables.candidates

    def cheap(method, width, seed):
        return of_method("PCA" if method == "Kernel VICReg" else method, width, seed)

    monkeypatch.setattr(tables, "candidates", cheap)


def test_every_method_has_one_width_and_finished_folds_are_left_alone(tmp_path, quick):
    job = Job("smoke", out=tmp_path, seeds=(0,), say=lambda line: None)
    tables.Tables(tables=("wine",), folds=2).run(job)
    rows = json.loads((tmp_path / "tables.json").read_text())["rows"]
    assert len(rows) == 2 * len(tables.METHODS) * len(tables.LABELS)
    assert {row["width"] for row in rows if row["method"] != "all columns"} == {6}
    assert all(0.3 < row["accuracy"] <= 1 for row in rows)
    rows[0]["accuracy"] = 0.123
    (tmp_path / "tables.json").write_text(json.dumps({"rows": rows}))
    tables.Tables(tables=("wine",), folds=2).run(job)
    assert json.loads((tmp_path / "tables.json").read_text())["rows"] == rows
    page = tables.Tables.for_page(tmp_path)
    assert "| table | splits | width | all columns | PCA | kernel PCA | untrained network | Kernel VICReg |" in page
    assert "| wine | 2 | 6 | " in page


def test_older_rows_stay_older_when_others_are_added_and_the_page_says_so(tmp_path, quick):
    path, job = tmp_path / "tables.json", Job("smoke", out=tmp_path, seeds=(0,), say=lambda line: None)
    tables.Tables(tables=("wine",), folds=2).run(job)
    table = json.loads(path.read_text())
    first = [{**row, "fingerprint": "1 2 3"} for row in table["rows"] if row["fold"] == 0]
    path.write_text(json.dumps({**table, "rows": first}))
    tables.Tables(tables=("wine",), folds=2).run(job)
    assert versions.statuses(path) == {"stale": len(first), "current": len(first)}
    assert f"{len(first)} of {2 * len(first)} rows: stale" in tables.Tables.for_page(tmp_path)
