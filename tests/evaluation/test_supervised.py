"""Training with labels: fine-tuning and the supervised control learn, repeatably, without touching the encoder."""

import pytest
import torch

from kvicreg.data import ArrayData, load
from kvicreg.evaluation.controls import RawPixels, random_encoder
from kvicreg.evaluation.data import training_views
from kvicreg.evaluation.supervised import fine_tuning, train_with_labels
from kvicreg.runs import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory, make_run):
    return RunFolder.open(make_run(tmp_path_factory.mktemp("runs") / "run"))


@pytest.fixture(scope="module")
def sets():
    return load("digits", image_size=16), load("digits", "test", image_size=16)


def test_fine_tuning_learns_and_leaves_the_encoder_alone(run, sets):
    encoder = run.encoder()
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    result = fine_tuning(encoder, *sets, training_views(run), epochs=4, learning_rate=3e-3)
    assert result.accuracy > 0.7
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())


def test_training_with_labels_is_repeatable(run, sets):
    few = sets[0].subset(torch.arange(100))
    one, two = (train_with_labels(run.encoder(), few, training_views(run), epochs=1)[1].weight for _ in range(2))
    assert torch.equal(one, two)


def test_few_images_make_twenty_steps_of_an_epoch(run, sets):
    sizes = []
    views = training_views(run)

    def counted(images, *rest, **more):
        sizes.append(len(images))
        return views(images, *rest, **more)

    train_with_labels(run.encoder(), sets[0].subset(torch.arange(400)), counted, epochs=1)
    assert sizes == [20] * 20


def test_the_random_control_has_the_architecture_but_other_weights(run):
    encoder = run.encoder()
    fresh = random_encoder(encoder, seed=1)
    same = [torch.equal(a, b) for a, b in zip(encoder.parameters(), fresh.parameters(), strict=True)]
    assert not all(same)
    again = random_encoder(encoder, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), again.parameters(), strict=True))


def test_raw_pixels_are_the_pixels_in_the_unit_interval_shrunk_where_there_are_many():
    images = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4)
    model = RawPixels((1, 4, 4))
    torch.testing.assert_close(model(model.preprocess(images)), torch.arange(16.0)[None] / 255)
    large = RawPixels((3, 96, 96))
    assert large(torch.zeros(2, 3, 96, 96)).shape == (2, large.feature_dim) == (2, 3072)


def test_images_without_labels_are_refused(run):
    unlabelled = ArrayData(torch.zeros(4, 1, 16, 16, dtype=torch.uint8))
    with pytest.raises(ValueError, match="no labels to train with"):
        train_with_labels(run.encoder(), unlabelled, training_views(run), epochs=1)
