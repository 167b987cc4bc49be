"""What people write becomes settings: lengths of time, normalizations, batch sizes, and what is left open."""

from __future__ import annotations

import pytest

from kvicreg.runs import Settings, load_settings
from kvicreg.runs.config import dump_settings, recipe, recipes
from kvicreg.runs.durations import in_words, minutes
from kvicreg.runs.settings import read_normalization


def test_lengths_of_time_are_read_and_written_as_people_do():
    assert [minutes(text) for text in ("30m", "0.5h", "90s", " 2 h ", ".5m")] == [30, 30, 1.5, 120, 0.5]
    for wrong in ("30", "m", "0m", "-1m", "1d", "1m2"):
        with pytest.raises(ValueError, match=f"time: expected something like 30m or 2h, got {wrong!r}"):
            minutes(wrong)
    with pytest.raises(ValueError, match="time_limit: expected"):
        Settings.of(time_limit="soon")
    assert [in_words(s) for s in (0.4, 89, 90, 5399, 5400)] == [
        "0 seconds", "89 seconds", "2 minutes", "90 minutes", "1.5 hours",
    ]  # fmt: skip


def test_normalizations_are_read():
    assert read_normalization("0.5,0.25/1,2") == ((0.5, 0.25), (1, 2))
    for wrong in ("0.5", "0.5/0", "0.5/-1", "0.5,1/1", "nan/1", "1/2/3", "a/b"):
        with pytest.raises(ValueError, match=f"normalize: expected data, or .*got {wrong!r}"):
            Settings.of(normalize=wrong)
    Settings.of(normalize="data")


@pytest.mark.parametrize(
    ("images", "processes", "most", "expected"),
    [
        (100_000, 1, 512, 512),
        (1000, 1, 512, 248),
        (16, 1, 512, 8),
        (1000, 3, 512, 240),
        (100_000, 3, 512, 504),
        (1000, 1, 64, 64),
    ],
)
def test_the_batch_size_follows_the_number_of_images(images, processes, most, expected):
    assert Settings.of().schedule.batch_size_for(images, processes, most) == expected
    assert Settings.of(batch_size=6).schedule.batch_size_for(images, processes, most) == 6
    assert Settings.of().schedule.batch_size_for(100_000) == 512


def test_a_run_is_what_is_asked_for_or_what_differs_is_told():
    run = Settings.of(data="mnist", epochs=3, temperature=0.3, method="simclr", out="a").usual()
    assert Settings.of(data="mnist", epochs=3, temperature=0.3, method="simclr", out="b").agrees_with(run)
    assert Settings.of(data="mnist", epochs=4, temperature=0.1, method="simclr").missing_from(run) == {
        "epochs": 4,
        "temperature": 0.1,
    }
    assert Settings.of(data="mnist", method="simclr", width=0.5, temperature=0.3).missing_from(run) == {"width": 0.5}
    assert Settings.of(data="cifar10", method="simclr", temperature=0.3).missing_from(run) == {"data": "cifar10"}


def test_what_is_left_open_is_as_usual():
    usual = Settings.of().usual()
    assert (usual.schedule.epochs, usual.engine.precision, usual.flat()["workers"]) == (20, "32-true", 2)
    assert usual.model.encoder.choice == "small-cnn"
    given = Settings.of(epochs=3, precision="64-true", workers=0, encoder="resnet18").usual()
    assert (given.schedule.epochs, given.engine.precision, given.flat()["workers"]) == (3, "64-true", 0)
    assert given.model.encoder.choice == "resnet18"
    assert Settings.of(data="mnist", method="simclr").folder.as_posix() == "runs/mnist-simclr"
    assert Settings.of(out="x").folder.as_posix() == "x"
    assert Settings.of().schedule.total_epochs == 20
    with pytest.raises(ValueError, match="strategy: fsdp splits the weights among processes"):
        Settings.of(strategy="fsdp")


def test_settings_are_written_by_group_and_read_from_files(tmp_path):
    text = dump_settings(Settings.of(method="simclr", temperature=0.3, out="ü"))
    assert "# method\nmethod: simclr\ntemperature: 0.3\n\n# model\nencoder: auto\n" in text
    assert "out: ü" in text
    (tmp_path / "s.yaml").write_text(text)
    assert load_settings(tmp_path / "s.yaml") == Settings.of(method="simclr", temperature=0.3, out="ü")
    (tmp_path / "s.yaml").write_text("epoch: 3")
    with pytest.raises(ValueError, match=r"s.yaml: there is no setting 'epoch'; did you mean 'epochs'"):
        load_settings(tmp_path / "s.yaml")
    (tmp_path / "s.yaml").write_text("")
    assert recipe(tmp_path / "s.yaml") == {}
    assert not any(name.startswith(".") for name in recipes())
    assert recipe("mnist") == recipes()["mnist"]
