"""The study chooses on validation alone, and the proof takes VICReg's weights from it."""

import json

import pytest

from kvicreg.reproduction import proof, study
from kvicreg.reproduction.jobs import Job, part_of


def quiet(_: str) -> None:
    pass


def row(family, factor, value, probe, data="d", change=None):
    return {"family": family, "factor": factor, "value": value, "probe": probe, "data": data, "change": change or {}}


def test_the_best_change_is_that_of_the_best_mean_over_data_sets():
    rows = [
        row("vicreg", "weights", "a", 0.9, "one", {"invariance_weight": 1.0}),
        row("vicreg", "weights", "a", 0.5, "two", {"invariance_weight": 1.0}),
        row("vicreg", "weights", "b", 0.8, "one", {"invariance_weight": 2.0}),
        row("vicreg", "weights", "b", 0.7, "two", {"invariance_weight": 2.0}),
        row("vicreg", "weights", "unfinished", 0.99, "one"),
        row("vicreg", "projector width", 4096, 0.99, "one"),
        row("vicreg", "projector width", 4096, 0.99, "two"),
        row("rbf", "weights", "a", 1.0, "one"),
    ]
    best = study.chosen(rows, "vicreg")
    assert (best["value"], best["settings"], best["probe"]) == ("b", {"invariance_weight": 2.0}, 0.75)
    assert study.chosen(rows, "linear") == {}


def test_every_variation_is_a_setting_of_its_own():
    job = Job("small")
    for family in study.FAMILIES:
        names = [cell.name for cell in study._cells(job, family, "cifar10", 0)]
        assert len(set(names)) == len(names), family


def test_study_then_proof(tmp_path):
    job = Job("smoke", tmp_path / "runs", tmp_path, on="validation", say=quiet)
    best = study.run(job, families=["vicreg"], data=["mnist"])
    kept = json.loads((tmp_path / "study.json").read_text())
    assert kept["chosen"]["vicreg"] == best["vicreg"]
    assert {r["on"] for r in kept["rows"]} == {"validation"}
    assert (tmp_path / "study-mnist.png").stat().st_size > 10_000

    kept["chosen"]["vicreg"]["settings"] = {"invariance_weight": 7.0}
    (tmp_path / "study.json").write_text(json.dumps(kept))
    found = proof.run(
        Job("smoke", tmp_path / "runs", tmp_path, say=quiet), data=["mnist"], seeds=[0], grid_data="mnist"
    )
    kept = json.loads((tmp_path / "proof.json").read_text())
    assert kept["findings"] == found
    assert found["rival"] == "vicreg, tuned"
    assert {r["on"] for r in kept["rows"]} == {"test"}
    of = {r.get("name", r["method"]): {**kept["shared"], **r["config"]} for r in kept["rows"] if not r.get("grid")}
    assert {"raw pixels", "random encoder", "supervised", *proof.KERNELS} <= set(of)
    assert of["vicreg, tuned"]["invariance_weight"] == 7.0
    assert of["vicreg, published"]["invariance_weight"] == 25.0
    weights = {tuple(of[k][f"{t}_weight"] for t in ("invariance", "variance", "covariance")) for k in proof.KERNELS}
    assert len(weights) == 1
    text = (tmp_path / "proof.md").read_text()
    assert "### mnist" in text
    assert "finished" not in text
    assert (tmp_path / "proof.png").is_file()


def test_a_table_says_that_runs_are_still_to_come(tmp_path):
    job = Job("smoke", tmp_path / "runs", tmp_path, part=(1, 10**6), on="validation", say=quiet)
    study.run(job, families=["vicreg"], data=["mnist"])
    assert "1 of 3 runs are finished" in (tmp_path / "study.md").read_text()


def test_without_a_study_tuned_vicreg_is_left_out(tmp_path):
    said = []
    found = proof.run(Job("smoke", tmp_path, tmp_path, say=said.append), data=[], grid_data="")
    assert "vicreg, tuned is left out" in said[0]
    assert found["best_fixed_kernel"] is None


def test_fewer_images_are_seen_for_as_many_steps():
    few = proof._varied(Job("small"), "images", 500)
    assert few == {"images": 500, "epochs": 6 * (10_000 // 256)}


def test_findings_name_what_is_below_the_random_encoder():
    def scored(name, probe, data="d", **more):
        return {"name": name, "method": name, "data": data, "probe": probe, "seed": 0, **more}

    rows = [scored("vicreg, tuned", 0.8), scored("random encoder", 0.6), *(scored(k, 0.7) for k in proof.KERNELS)]
    grids = [
        scored("rbf", 0.5, grid="projector width", value=128),
        scored("rq", 0.65, grid="projector width", value=128),
    ]
    found = proof.findings(rows, grids)
    assert not found["best_fixed_kernel_is_above_everywhere"]
    assert found["kernels_above_rival_everywhere"] == []
    better = [*rows, scored("vicreg, tuned", 0.7, "e"), *(scored(k, 0.8, "e") for k in proof.KERNELS)]
    better += [scored("linear", 1.0), scored("rbf", 0.85)]  # the means over two runs: 0.85 and 0.775
    assert proof.findings(better, [])["kernels_above_rival_everywhere"] == ["linear"]
    assert found["kernels_below_the_random_encoder_in_the_grids"] == ["rbf at projector width 128, seed 0"]


def test_margins_are_those_of_the_same_seed():
    def scored(name, seed, probe, knn):
        return {"name": name, "method": name, "data": "d", "seed": seed, "probe": probe, "knn": knn}

    rows = [scored("vicreg, tuned", 0, 0.8, 0.5), scored("vicreg, tuned", 1, 0.7, 0.6), scored("rbf", 0, 0.81, 0.5)]
    rows += [scored("rbf", 1, 0.73, 0.58), scored("linear", 2, 0.9, 0.9)]
    lines = proof._margins(rows, "vicreg, tuned").splitlines()
    assert "| rbf | +2.0 (+1.0 to +3.0) | -1.0 (-2.0 to +0.0) |" in lines
    assert "| linear |  |  |" in lines
    assert proof._margins(rows, "vicreg, published") == ""


def test_missing_data_are_named_with_the_command_that_fetches_them(tmp_path):
    missing = Job("small", tmp_path, tmp_path, data_root=str(tmp_path), say=quiet).missing(["stl10", "digits"])
    assert list(missing) == ["stl10"]
    assert "kvicreg data get stl10" in missing["stl10"]


def test_parts_are_counted_from_one():
    assert part_of("2/3") == (1, 3)
    for wrong in ("0/2", "3/2", "1", "a/b"):
        with pytest.raises(ValueError, match="part: expected K/N"):
            part_of(wrong)
