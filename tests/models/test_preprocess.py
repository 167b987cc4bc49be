"""Images become what the encoder was trained on, pixel by pixel; the projector ends as its settings say."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kvicreg.models import PretrainedEncoder, Projector, SmallCNN, build_encoder
from kvicreg.models.projector import ProjectorOptions, UnitLength

MEAN, STD = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]


def encoder(mean=MEAN, std=STD, size=16, **more):
    description = {"feature_dim": 512, "image_size": size, "mean": mean, "std": std, **more}
    return PretrainedEncoder(SmallCNN(len(mean)), projector=None, description=description)


def images(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def normalized(x):
    return (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def test_an_encoder_of_deep_images_takes_floats_from_black_to_white():
    x = images(2, 3, 16, 16).float() + 0.25
    before = x.clone()
    torch.testing.assert_close(encoder(intensity="0:4095").preprocess(x), normalized(before / 255))
    assert torch.equal(x, before)
    with pytest.raises(ValueError, match="images must be uint8"):
        encoder(intensity=None).preprocess(x)
    with pytest.raises(ValueError, match="images must be uint8"):
        encoder(intensity="0:4095").preprocess(x.long())


def test_what_is_no_batch_of_images_is_told_so():
    with pytest.raises(TypeError, match="images must be a tensor, uint8 of shape .* got ndarray"):
        encoder().preprocess(images(2, 3, 16, 16).numpy())
    with pytest.raises(ValueError, match=r"images must be \(b, 3, h, w\), got \(2, 16, 16, 3\)"):
        encoder().preprocess(images(2, 16, 16, 3))
    with pytest.raises(ValueError, match=r"images must be normalised, .* got torch.uint8"):
        encoder()(images(2, 3, 16, 16))


def test_without_an_early_map_there_is_none():
    assert SmallCNN(3).early_pool is None
    assert SmallCNN(3, early_pool=2).feature_dim == SmallCNN(3).feature_dim + 64 * 4


def test_images_of_the_right_side_are_cropped_and_not_resampled():
    x = images(2, 3, 16, 22)
    torch.testing.assert_close(encoder().preprocess(x), normalized(x[:, :, :, 3:19] / 255))
    x = images(2, 3, 22, 16)
    torch.testing.assert_close(encoder().preprocess(x), normalized(x[:, :, 3:19] / 255))


@pytest.mark.parametrize(("shape", "resized", "crop"), [((40, 32), (20, 16), (2, 0)), ((8, 10), (16, 20), (0, 2))])
def test_others_are_brought_to_the_shorter_side_first(shape, resized, crop):
    x = images(2, 3, *shape)
    expected = F.interpolate(x / 255, resized, mode="bilinear", antialias=True)
    top, left = crop
    torch.testing.assert_close(
        encoder().preprocess(x), normalized(expected[:, :, top : top + 16, left : left + 16]), atol=1e-5, rtol=1e-5
    )


def test_grey_images_are_repeated_for_an_encoder_of_colors_and_colors_made_grey():
    x = images(2, 1, 16, 16)
    torch.testing.assert_close(encoder().preprocess(x), normalized((x / 255).expand(-1, 3, -1, -1)))
    x = images(2, 3, 16, 16)
    grey = (x / 255 * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True)
    torch.testing.assert_close(encoder([0.5], [0.25]).preprocess(x), (grey - 0.5) / 0.25, atol=1e-5, rtol=1e-5)


def test_an_encoder_is_of_color_images_of_32_pixels_unless_told_otherwise():
    description = build_encoder("small-cnn").description
    assert (description["in_channels"], description["image_size"], description["norm"]) == (3, 32, "batch")


def test_the_projector_is_what_its_settings_say():
    options = ProjectorOptions(projector_layers=4, projector_hidden=6, projector_outputs=5, projector_final="batch")
    projector = options.build(7, norm="group")
    linear = [m for m in projector if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(7, 6), (6, 6), (6, 6), (6, 5)]
    assert [m.bias is not None for m in linear] == [False, False, False, True]
    assert [type(m).__name__ for m in projector][1:3] == ["LayerNorm", "ReLU"]


def test_the_end_of_a_projector():
    z = torch.randn(32, 7, generator=torch.Generator().manual_seed(0))
    batch = Projector(7, 6, 5, final="batch")(z)
    torch.testing.assert_close(batch.mean(0), torch.zeros(5), atol=1e-5, rtol=0)
    torch.testing.assert_close(batch.var(0, correction=0), torch.ones(5), atol=1e-3, rtol=0)
    projector = Projector(7, 6, 5, final="length")
    assert isinstance(projector[-1], UnitLength)
    torch.testing.assert_close(projector(z).square().sum(1), torch.full((32,), 5.0))
    assert isinstance(Projector(7, 6, 5)[-1], nn.Linear)
