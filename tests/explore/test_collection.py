"""Images are embedded once, go on where a stop left them, and are searched by image and by example."""

import numpy as np
import pytest
import torch
from photographs import draw
from PIL import Image

from kvicreg.data import ArrayData, FileData, load
from kvicreg.explore import embedding, open_encoder, open_images, space
from kvicreg.explore.collection import read_image
from kvicreg.explore.session import Session
from kvicreg.measures import features
from kvicreg.models import build_encoder
from kvicreg.models.encoder import ENCODERS, IMAGENET
from kvicreg.models.weights import save_weights
from kvicreg.options import Values


def count_embedded(monkeypatch):
    """A list that gets the number of images of every pass through an encoder."""
    passes = []
    stream = features.stream_features

    def spy(encoder, data, **more):
        passes.append(len(data))
        return stream(encoder, data, **more)

    monkeypatch.setattr(embedding, "stream_features", spy)
    return passes


def test_images_are_embedded_once(photos, tmp_path, monkeypatch):
    passes = count_embedded(monkeypatch)
    first = open_images("pixels", photos, cache=tmp_path / "cache")
    again = open_images("pixels", photos, cache=tmp_path / "cache")
    assert passes == [40]
    assert again.unit.equal(first.unit)


def test_a_changed_file_is_embedded_anew(photos, tmp_path, monkeypatch):
    open_images("pixels", photos, cache=tmp_path / "cache")
    passes = count_embedded(monkeypatch)
    draw(2, 7).save(photos / "green" / "003.png")
    open_images("pixels", photos, cache=tmp_path / "cache")
    assert passes == [40]


def test_other_weights_are_embedded_anew(tmp_path, make_run, monkeypatch):
    data = ArrayData(torch.randint(0, 255, (12, 1, 16, 16), dtype=torch.uint8))
    passes = count_embedded(monkeypatch)
    for seed in (0, 1, 0):
        run = make_run(tmp_path / f"run{seed}", seed=seed)
        open_images(run, data, cache=tmp_path / "cache")
    assert passes == [12, 12]


def test_a_stop_loses_only_what_was_not_saved(photos, tmp_path, monkeypatch):
    whole = open_images("pixels", photos, cache=tmp_path / "whole")
    monkeypatch.setattr(embedding, "SAVED_EVERY", 0.0)

    def stop(what, done, total):
        if done == 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_images("pixels", photos, cache=tmp_path / "cache", batch_size=8, progress=stop)
    passes = count_embedded(monkeypatch)
    resumed = open_images("pixels", photos, cache=tmp_path / "cache", batch_size=8)
    assert passes == [16]
    torch.testing.assert_close(resumed.unit, whole.unit)
    assert resumed.pixel_rows.equal(whole.pixel_rows)


def test_a_damaged_file_of_features_is_made_again(photos, tmp_path):
    first = open_images("pixels", photos, cache=tmp_path / "cache")
    (first.files.folder / "features.npy").write_bytes(b"nothing")
    assert open_images("pixels", photos, cache=tmp_path / "cache").unit.equal(first.unit)


def test_another_space_has_neighbours_of_its_own_and_the_same_features(images, photos, tmp_path, monkeypatch):
    before = images.neighbours[1]
    monkeypatch.setattr(space, "VERSION", space.VERSION + 1)
    monkeypatch.setattr(space, "FLOOR", 1000.0)
    passes = count_embedded(monkeypatch)
    again = open_images("pixels", photos, cache=tmp_path / "cache")
    assert passes == []
    assert not again.neighbours[1].allclose(before)


def test_an_unreadable_file_has_no_neighbours_and_is_never_given(photos, tmp_path):
    (photos / "green" / "003.png").write_bytes(b"no image")
    images = open_images("pixels", photos, cache=tmp_path / "cache", batch_size=8)
    bad = images.names.index("green/003.png")
    assert not images.readable[bad]
    assert images.readable.sum() == 39
    assert bad not in [match.index for match in images.search(positive=[0], count=39)]
    page = Session(images, tmp_path / "labels.csv")
    assert bad not in [match.index for match in page.search(images.unit[0], {0}, 40)]
    assert bad not in [match.index for match in images.pixel_neighbours(0, 40)]


def test_an_image_of_the_collection_finds_itself_as_a_file(images, photos):
    match = images.search(str(photos / "green" / "007.png"), count=1)[0]
    assert match.name == "green/007.png"
    assert match.similarity > 0.999


@pytest.mark.parametrize("fit", ["crop", "letterbox", "stretch"])
def test_an_image_from_elsewhere_becomes_a_square_as_those_of_the_collection_do(tmp_path, fit):
    (tmp_path / "wide").mkdir()
    for k in range(3):
        wide = np.zeros((20, 40, 3), np.uint8)
        wide[:, 10 + k : 30] = 200
        Image.fromarray(wide).save(tmp_path / "wide" / f"{k}.png")
    data = load(tmp_path / "wide", image_size=16, fit=fit)
    assert read_image(tmp_path / "wide" / "1.png", data).equal(data.fetch(torch.tensor([1]))[0])


def test_neighbours_are_those_of_a_full_sort(images):
    indices, cosines = images.neighbours
    similarity = images.unit @ images.unit.T - 3 * torch.eye(len(images))
    torch.testing.assert_close(cosines, similarity.sort(1, descending=True).values[:, :15])
    torch.testing.assert_close(similarity.gather(1, indices), cosines)


def test_negative_examples_push_away(images):
    one, other = images.names.index("green/000.png"), images.names.index("red <b>/000.png")
    towards = images.search(positive=[one, other], count=20)
    away = images.search(positive=[one, other], negative=[other], count=20)

    def green(matches):
        return sum(match.name.startswith("green") for match in matches)

    assert green(away) == 19
    assert green(away) > green(towards)
    assert {one, other}.isdisjoint(match.index for match in away)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "expected an image or at least one positive example"),
        ({"negative": [1]}, "expected an image or at least one positive example"),
        ({"positive": [40]}, "positive: expected numbers of images from 0 to 39, got 40"),
        ({"positive": [1], "count": 0}, "count must be at least 1, got 0"),
        ({"image": b"no image"}, "image: it can't be read"),
    ],
)
def test_a_wrong_search_is_refused(images, wrong, message):
    with pytest.raises(ValueError, match=message):
        images.search(**wrong)


def test_a_name_that_is_no_encoder_is_refused():
    with pytest.raises(ValueError, match="'rsenet' is no run folder or checkpoint here, not 'pixels' and none of hf, "):
        open_encoder("rsenet")


def test_an_encoder_by_name_has_published_weights_or_those_of_a_file(tmp_path, monkeypatch):
    torch.manual_seed(1)
    model = build_encoder("small-cnn", 3, 32)
    monkeypatch.setattr(type(ENCODERS.read("small-cnn", Values({}))), "published", lambda options: model.state_dict())
    save_weights(model, tmp_path / "weights.safetensors")
    images = torch.randint(0, 255, (2, 3, 32, 32), dtype=torch.uint8)
    inputs = (images / 255 - torch.tensor(IMAGENET.mean).view(3, 1, 1)) / torch.tensor(IMAGENET.std).view(3, 1, 1)
    for weights in (None, tmp_path / "weights.safetensors"):
        encoder = open_encoder("small-cnn", weights=weights, image_size=32, device="cpu")
        with torch.no_grad():
            torch.testing.assert_close(encoder(encoder.preprocess(images)), model.eval()(inputs))


def test_an_encoder_without_weights_is_refused():
    with pytest.raises(ValueError, match="small-cnn has no published weights"):
        open_encoder("small-cnn", image_size=32)


def test_pictures_are_small_files_of_the_right_image(images):
    from io import BytesIO

    from PIL import Image

    for index in (0, 25):
        shown = np.asarray(Image.open(BytesIO(images.picture(index, 48, "PNG"))))
        assert np.abs(shown.astype(int) - np.asarray(Image.open(images.data.paths[index]))).max() == 0
    assert Image.open(BytesIO(images.picture(0, 16))).size == (16, 16)


def test_files_are_shown_in_their_own_size(images):
    assert isinstance(images.shown, FileData)
    assert images.shown.shape == (3, 48, 48)
    assert images.data.shape == (3, 16, 16)
