"""`--approximation auto`: exact where the loss is cheap beside the network, and told; its error is recorded."""

from __future__ import annotations

import csv

import pytest
import torch

from kvicreg.runs import Settings
from kvicreg.training import approximation as module
from kvicreg.training.approximation import choose_approximation
from kvicreg.training.cost import Cost
from kvicreg.training.plan import plan
from kvicreg.training.run import train

SMALL = {
    "batch_size": 32, "width": 0.25, "projector_hidden": 16, "projector_outputs": 16, "images": 64, "probe_images": 0,
    "spectrum_images": 32, "epochs": 1,
}  # fmt: skip


@pytest.fixture
def times(monkeypatch):
    """Sets the seconds and the value of the exact loss and of approximated ones."""

    def set_up(exact, approximated):
        def measured(settings, rows, device, clock):
            return exact if settings.flat()["approximation"] == "exact" else approximated

        monkeypatch.setattr(module, "_measured", measured)

    return set_up


def cost(image_seconds):
    return Cost(torch.device("cpu"), 0, 0, image_seconds, 0.0, 0.0)


def chosen(settings, image_seconds=0.001, batch_size=1000):
    settings, why = choose_approximation(settings, cost(image_seconds), batch_size)
    return settings.flat()["approximation"], why


@pytest.mark.parametrize(
    ("kernel", "seconds", "expected"),
    [
        ("rbf", 0.1, "exact"),
        ("rbf", 1.0, "random-fourier"),
        ("rq", 1.0, "random-fourier"),
        ("laplacian", 1.0, "nystrom"),
        ("rbf+linear", 1.0, "nystrom"),
        ("linear", 1.0, "exact"),
    ],
)
def test_the_exact_loss_is_kept_while_it_is_a_small_share_of_a_step(times, kernel, seconds, expected):
    times((seconds, 2.0), (0.01, 2.1))
    name, why = chosen(Settings.of(approximation="auto", kernel=kernel))
    assert name == expected
    assert why.startswith(f"approximation auto: {expected}")


def test_an_approximation_that_is_no_faster_is_not_taken(times):
    times((1.0, 2.0), (1.5, 2.0))
    assert chosen(Settings.of(approximation="auto"))[0] == "exact"


def test_the_sentence_has_shares_and_error(times):
    times((1.0, 2.0), (0.25, 2.1))
    why = chosen(Settings.of(approximation="auto"))[1]
    assert "takes about 20% of a step" in why
    assert "would take 50%" in why
    assert "differ by 5.0%" in why


def test_the_exact_loss_grows_with_the_third_power_of_the_batch(times):
    times((0.1, 2.0), (0.01, 2.0))  # at 1,024 images
    assert chosen(Settings.of(approximation="auto"), batch_size=1024)[0] == "exact"
    assert chosen(Settings.of(approximation="auto"), batch_size=4096)[0] == "random-fourier"


def test_several_processes_are_told_to_choose():
    with pytest.raises(ValueError, match="several processes would not agree: pass exact"):
        choose_approximation(Settings.of(approximation="auto", devices=2), cost(0.1), 64)


def test_the_choice_is_made_before_training_and_written_down():
    settings = Settings.of(**SMALL, approximation="auto")
    fitted = plan(settings)
    assert fitted.settings.flat()["approximation"] in ("exact", "random-fourier")
    assert sum("approximation auto" in line for line in fitted.lines) == 1


@pytest.mark.parametrize("approximation", ["exact", "nystrom"])
def test_the_error_of_an_approximation_is_recorded(tmp_path, approximation):
    more = {} if approximation == "exact" else {"components": 8}
    settings = Settings.of(**SMALL, approximation=approximation, **more, out=str(tmp_path / "run"))
    train(settings, quiet=True)
    with (tmp_path / "run" / "metrics.csv").open() as file:
        row = list(csv.DictReader(file))[-1]
    if approximation == "exact":
        assert "approximation_error" not in row
    else:
        assert 1e-4 < float(row["approximation_error"]) < 0.5


def test_the_solver_that_auto_takes_is_told_in_the_log(tmp_path, capsys):
    from kvicreg.operators.products import fastest

    fastest.cache_clear()
    train(Settings.of(**SMALL, solver="auto", out=str(tmp_path / "run")))
    log = capsys.readouterr().out
    assert log.count("solver auto: ") == 1
    assert "for a matrix of 32 x 32 on cpu (eigh " in log
