"""What is said before a training begins, and when one goes on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from pictures import Pictures

from kvicreg.data import ArrayData, Views
from kvicreg.runs import RunFolder, Settings
from kvicreg.training import continuing
from kvicreg.training.build import build_method
from kvicreg.training.checkpoint import AtomicCheckpointIO
from kvicreg.training.opening import opening_lines

SMALL = {"width": 0.25, "projector_hidden": 16, "projector_outputs": 16, "image_size": 16, "channels": 1}
DATA = ArrayData(torch.zeros(2000, 1, 16, 16, dtype=torch.uint8), name="squares")


# ---- before


def opened(data=DATA, **given):
    settings = Settings.of(**(SMALL | {"encoder": "small-cnn", "epochs": 3, "batch_size": 64} | given))
    method = build_method(settings)
    numbers = [sum(p.numel() for p in part.parameters()) for part in (method.encoder, method.projector)]
    return opening_lines(settings, data, Views.of(DATA), method), settings, method, numbers


def test_a_training_says_what_it_is():
    (line, *rest), settings, method, (encoder, projector) = opened()
    assert line == (
        f"{settings.method.describe()} on squares: 2,000 images 1x16x16; small-cnn, {encoder:,} parameters, features "
        f"of width {method.encoder.feature_dim:,} (projector: {projector:,} more); 3 epochs of batches of 64."
    )
    assert all(line.startswith("Views of 1 channel leave out: ") for line in rest)


def test_what_may_surprise_is_said():
    few = ArrayData(torch.zeros(999, 1, 16, 16, dtype=torch.uint8), name="few")
    few.notes = ("The classes are folders.",)
    lines = opened(few, accumulate=2)[0]
    assert lines[1] == (
        "999 images are few: expect an encoder that tells these apart and knows little beyond them. kvicreg evaluate "
        "has the untrained encoder beside it; --init starts from a run on more images."
    )
    assert lines[2] == (
        "Gradients of 2 batches are averaged per step. Each batch has its own loss, over its 64 images: not the loss "
        "of one batch of 128."
    )
    assert lines[3] == "The classes are folders."
    enough = ArrayData(torch.zeros(1000, 1, 16, 16, dtype=torch.uint8), name="enough")
    assert not any("are few" in line for line in opened(enough)[0])


@pytest.mark.parametrize(
    ("batch_size", "method", "told"), [(31, "kernel-vicreg", True), (32, "kernel-vicreg", False), (8, "byol", False)]
)
def test_small_batches_are_told_where_the_loss_compares_their_images(batch_size, method, told):
    lines = opened(batch_size=batch_size, method=method)[0]
    assert any(line.startswith(f"Batches of {batch_size} are small: ") for line in lines) == told


def test_few_images_with_a_start_are_not_told_to_take_one():
    few = ArrayData(torch.zeros(999, 1, 16, 16, dtype=torch.uint8), name="few")
    _, settings, method, _ = opened(few)
    line = opening_lines(settings.replace(init="zoo:mnist"), few, Views.of(few), method)[1]
    assert line.endswith("kvicreg evaluate has the untrained encoder beside it.")


def test_one_class_counts_as_no_labels():
    alike = ArrayData(DATA.images, torch.zeros(2000), name="alike")
    assert opened(alike)[0][1] == ("All images are of one class, which counts as no labels: accuracy is not measured.")


@pytest.mark.parametrize(("stored", "cached", "told"), [(24, 0, True), (16, 5_000_000, True), (16, 0, False)])
def test_views_of_larger_images_and_their_memory_are_told(stored, cached, told):
    data = Pictures(2000, 16, cache_bytes=cached, for_views=lambda: SimpleNamespace(shape=(3, stored, stored)))
    sentence = (
        f"Views are cropped from {stored}x{stored} pixels of each image; decoded ones take up to {cached / 1e6:.0f} MB "
        "(cache_mb) in each process."
    )
    assert (sentence in opened(data)[0]) == told


def test_left_out_parts_of_views_and_notes_of_the_encoder_are_told():
    settings = Settings.of(**SMALL)
    method = build_method(settings)
    method.encoder.notes = ["From weights."]
    views = SimpleNamespace(skipped=["hue", "grayscale"])
    lines = opening_lines(settings, DATA, views, method)
    assert lines[1:] == ["From weights.", "Views of 1 channel leave out: hue, grayscale."]


# ---- going on


@pytest.fixture
def going(make_run, tmp_path, monkeypatch):
    """A run of 4 epochs of 5 batches that goes on from a checkpoint."""

    def set_up(done, step=0, **changes):
        folder = RunFolder(make_run(tmp_path / "run"))
        module = SimpleNamespace(settings=folder.settings.replace(**changes), batches_per_epoch=5)
        if done is not None:
            folder.checkpoint("last").parent.mkdir(exist_ok=True)
            folder.checkpoint("last").touch()
        state = {"batches_done": done, "global_step": step}
        monkeypatch.setattr(AtomicCheckpointIO, "load_checkpoint", lambda self, path: state)
        return folder, module

    return set_up


@pytest.mark.parametrize(
    ("done", "step", "changes", "line"),
    [
        (None, 0, {}, "{} has no checkpoint yet: it starts from the beginning."),
        (7, 7, {}, "Goes on at epoch 2, batch 3 of 5."),
        (20, 20, {}, "{} is finished; --epochs or --max-steps makes it longer."),
        (7, 7, {"max_steps": 7}, "{} is finished; --epochs or --max-steps makes it longer."),
        (7, 7, {"max_steps": 8}, "Goes on at epoch 2, batch 3 of 5."),
    ],
)
def test_it_is_told_where_a_run_goes_on(going, done, step, changes, line):
    folder, module = going(done, step, **changes)
    assert continuing.go_on(folder, module)[-1] == line.format(folder.path)


@pytest.mark.parametrize(("done", "begun"), [(11, 3), (15, 3), (10, None)])
def test_fewer_epochs_than_begun_are_refused(going, done, begun):
    folder, module = going(done, epochs=2)
    if begun is None:
        continuing.go_on(folder, module)
        return
    with pytest.raises(ValueError, match="is less") as error:
        continuing.go_on(folder, module)
    assert str(error.value) == f"epochs 2 is less than the {begun} that are done or begun in {folder.path}"


def test_changes_are_told_and_written_and_a_longer_run_has_no_encoder_yet(going):
    folder, module = going(7, log_every=9)
    assert continuing.go_on(folder, module)[0] == "log_every is 9 now, and was 20."
    assert folder.is_finished
    assert RunFolder(folder.path).settings.record.log_every == 9
    folder, module = going(7, epochs=6)
    assert continuing.go_on(folder, module)[0] == (
        "epochs is 6 now, and was 4: the learning rate follows the new length from here on. Resuming is exact from "
        "here on too, but this is not the run that 6 epochs from the start would be."
    )
    assert RunFolder(folder.path).settings.schedule.epochs == 6
    assert not folder.is_finished
    folder, module = going(7, max_steps=6)
    continuing.go_on(folder, module)
    assert not folder.is_finished


def test_what_can_not_change_is_told_with_what_can(make_run, tmp_path):
    folder = RunFolder(make_run(tmp_path / "run"))
    for name, value, reason in (
        ("seed", 5, "the order of the images and their views follow from it"),
        ("kernel", "linear", "the weights so far have been trained with it as it was"),
        ("dry_run", True, "the run is under way"),
    ):
        with pytest.raises(ValueError, match="can't change") as error:
            continuing.continued(folder, {name: value})
        assert str(error.value) == (
            f"{name} can't change when a run goes on (--resume): {reason}. "
            f"What can: {', '.join(continuing.MAY_CHANGE)}. "
            f"A new run can start from this one's encoder: --init {folder.path}"
        )
    before = folder.settings
    continuing.check_given(before, before)
    for now, words in (
        (before.replace(data="other"), "data: this run was trained with data digits, not other"),
        (before.replace(encoder="resnet18"), "encoder: this run was trained with encoder auto, not resnet18"),
    ):
        with pytest.raises(ValueError, match=f"^{words}; it goes on with the same alone$"):
            continuing.check_given(before, now)
