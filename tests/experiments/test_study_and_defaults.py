"""The study chooses on validation alone, and the comparison with the defaults takes VICReg's weights from it."""

import json

from experiments import defaults_vs_vicreg, study
from experiments.common import Job, Result
from experiments.common.tables import margins_table
from experiments.compute import all_labels
from experiments.defaults_vs_vicreg import KERNELS, DefaultsVsVICReg
from experiments.study import Study


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
    job = Study().prepared(Job("small"))
    for family in study.FAMILIES:
        _, *cells = study.family_cells(job, family, "cifar10", 0)  # one of them may be the default
        names = [cell.name for cell in cells]
        assert len(set(names)) == len(names), family


def test_the_study_then_the_defaults(tmp_path):
    job = Job("smoke", runs=tmp_path / "runs", out=tmp_path, say=quiet)
    best = Study(("vicreg",), ("mnist",)).run(job).about["chosen"]
    written = json.loads((tmp_path / "study.json").read_text())
    assert written["chosen"]["vicreg"] == best["vicreg"]
    assert {r["on"] for r in written["rows"]} == {"validation"}
    assert (tmp_path / "study-mnist.png").stat().st_size > 10_000

    written["chosen"]["vicreg"]["settings"] = {"invariance_weight": 7.0}
    (tmp_path / "study.json").write_text(json.dumps(written))
    findings = DefaultsVsVICReg(("mnist",), "").run(job).about["findings"]
    written = json.loads((tmp_path / "defaults-vs-vicreg.json").read_text())
    assert written["findings"] == findings
    assert findings["rival"] == "vicreg, tuned"
    assert {r["on"] for r in written["rows"]} == {"test"}
    of = {
        r.get("name", r["method"]): {**written["shared"], **r["config"]} for r in written["rows"] if not r.get("grid")
    }
    assert {"raw pixels", "random encoder", "supervised", *KERNELS} <= set(of)
    assert of["vicreg, tuned"]["invariance_weight"] == 7.0
    assert of["vicreg, published"]["invariance_weight"] == 25.0
    weights = {tuple(of[k][f"{t}_weight"] for t in ("invariance", "variance", "covariance")) for k in KERNELS}
    assert len(weights) == 1
    text = (tmp_path / "defaults-vs-vicreg.md").read_text()
    assert "### mnist" in text
    assert "finished" not in text
    assert (tmp_path / "defaults-vs-vicreg.png").is_file()


def test_a_table_says_that_runs_are_still_to_come(tmp_path):
    job = Job("smoke", part="2/1000000", runs=tmp_path / "runs", out=tmp_path, say=quiet)
    Study(("vicreg",), ("mnist",)).run(job)
    assert "1 of 3 runs are finished" in (tmp_path / "study.md").read_text()


def test_runs_whose_data_are_absent_are_not_still_to_come():
    job = Job("smoke", absent={"stl10": "stl10 is not there"})
    cells = [job.cell(data="cifar10"), job.cell(data="cifar10", target="stl10"), job.cell(data="stl10")]
    row = {"method": "kernel-vicreg", "data": "cifar10", "config": cells[0].config}
    assert Result(job, cells, [row]).unfinished() == []
    assert Result(job, [*cells, job.cell(data="mnist")], [row]).unfinished()[0].startswith("1 of 2 runs are finished")


def test_probes_on_all_labels_are_averaged_over_the_seeds_that_have_one():
    rows = [{"name": "rbf", "epochs": 8, "seed": seed, "probe_all": 0.7 + 0.02 * seed} for seed in (0, 1)]
    rows += [{"name": "rbf", "epochs": 4, "seed": 2}]
    assert all_labels(rows) == ["Linear probe on the labels of all training images, 8 epochs: rbf 71.0.\n"]
    assert all_labels(rows[2:]) == []


def test_without_a_study_tuned_vicreg_is_left_out(tmp_path):
    lines = []
    job = Job("smoke", runs=tmp_path, out=tmp_path, say=lines.append)
    findings = DefaultsVsVICReg((), "").run(job).about["findings"]
    assert "vicreg, tuned is left out" in lines[0]
    assert findings["best_fixed_kernel"] is None


def test_fewer_images_are_seen_for_as_many_steps():
    few = defaults_vs_vicreg.varied(Job("small"), "images", 500)
    assert few == {"images": 500, "epochs": 6 * (10_000 // 256)}


def test_findings_name_what_is_below_the_random_encoder():
    def scored(name, probe, data="d", **more):
        return {"name": name, "method": name, "data": data, "probe": probe, "seed": 0, **more}

    rows = [scored("vicreg, tuned", 0.8), scored("random encoder", 0.6), *(scored(k, 0.7) for k in KERNELS)]
    grids = [
        scored("rbf", 0.5, grid="projector width", value=128),
        scored("rq", 0.65, grid="projector width", value=128),
    ]
    findings = defaults_vs_vicreg.findings(rows, grids)
    assert not findings["best_fixed_kernel_is_above_everywhere"]
    assert findings["kernels_above_rival_everywhere"] == []
    better = [*rows, scored("vicreg, tuned", 0.7, "e"), *(scored(k, 0.8, "e") for k in KERNELS)]
    better += [scored("linear", 1.0), scored("rbf", 0.85)]  # the means over two runs: 0.85 and 0.775
    assert defaults_vs_vicreg.findings(better, [])["kernels_above_rival_everywhere"] == ["linear"]
    assert findings["kernels_below_the_random_encoder_in_the_grids"] == ["rbf at projector width 128, seed 0"]


def test_margins_are_those_of_the_same_seed():
    def scored(name, seed, probe, knn):
        return {"name": name, "method": name, "data": "d", "seed": seed, "probe": probe, "knn": knn}

    rows = [scored("vicreg, tuned", 0, 0.8, 0.5), scored("vicreg, tuned", 1, 0.7, 0.6), scored("rbf", 0, 0.81, 0.5)]
    rows += [scored("rbf", 1, 0.73, 0.58), scored("linear", 2, 0.9, 0.9)]
    lines = margins_table(rows, "vicreg, tuned", KERNELS).splitlines()
    assert "| rbf | +2.0 (+1.0 to +3.0) | -1.0 (-2.0 to +0.0) |" in lines
    assert "| linear |  |  |" in lines
    assert margins_table(rows, "vicreg, published", KERNELS) == ""


def test_missing_data_are_named_with_the_command_that_fetches_them(tmp_path):
    job = Job(data_root=str(tmp_path), say=quiet)
    assert [name for name in ("stl10", "digits", None) if not job.has(name)] == ["stl10"]
    assert "kvicreg data get stl10" in job.absent["stl10"]
