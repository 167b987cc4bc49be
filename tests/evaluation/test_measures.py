"""What is measured, number by number."""

from __future__ import annotations

import math
from importlib import metadata

import numpy as np
import pytest
import torch
from torch import nn

from kvicreg.evaluation.clusters import clustering
from kvicreg.evaluation.controls import RawPixels
from kvicreg.evaluation.diagnostics import alpha_req, class_variance_share, collapse_verdict, diagnose, uniformity
from kvicreg.evaluation.export import _difference
from kvicreg.evaluation.fairness import by_group
from kvicreg.evaluation.intervals import bootstrap_interval, bounds, paired_bootstrap
from kvicreg.evaluation.labelled import confusion, entry
from kvicreg.evaluation.maps import map_subset, thumbnails
from kvicreg.evaluation.probes import few_label_probe, fit_linear_probe, knn, labelled_subset, sgd_probe
from kvicreg.evaluation.results import versions
from kvicreg.evaluation.robustness import SHIFTS, robustness, shifted
from kvicreg.evaluation.verdict import verdict


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def right(share, count=200):
    """Scores of so many images, of which this share is right."""
    return (torch.arange(count) < round(share * count)).float()


def test_an_interval_has_the_percentiles_of_resampled_means():
    scores = right(0.7, 40)
    drawn = np.random.default_rng(3).binomial(40, 28 / 40, size=20_000) / 40
    interval = bootstrap_interval(scores, resamples=20_000, seed=5)
    assert interval.value == pytest.approx(0.7)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.026)
    narrow = bootstrap_interval(scores, level=0.5)
    assert interval.low < narrow.low < narrow.high < interval.high
    assert bootstrap_interval(scores) == bootstrap_interval(scores, resamples=2000, seed=0, level=0.95)
    assert bounds(np.arange(101.0)) == pytest.approx((2.5, 97.5))
    assert bounds(np.arange(101.0), 0.5) == pytest.approx((25, 75))
    for wrong in (torch.ones(2, 2), torch.ones(0)):
        with pytest.raises(ValueError, match="scores must be one number per test image, got shape"):
            bootstrap_interval(wrong)


def test_a_p_value_counts_both_sides_and_is_never_zero_or_above_one():
    sure = paired_bootstrap(torch.ones(50), torch.zeros(50))
    assert sure.p_value == pytest.approx(2 / 2001)
    assert (sure.difference, sure.low, sure.high) == (1, 1, 1)
    assert paired_bootstrap(torch.zeros(50), torch.ones(50), resamples=99).p_value == pytest.approx(2 / 100)
    assert paired_bootstrap(torch.ones(50), torch.ones(50)).p_value == 1
    one, two = right(0.6, 100), right(0.6, 100).roll(3)
    two[:4] = 0
    pair = paired_bootstrap(one, two, resamples=5000)
    difference = (one - two).numpy()
    means = np.random.default_rng(9).choice(difference, (5000, 100)).mean(1)
    assert pair.difference == pytest.approx(difference.mean())
    assert pair.p_value == pytest.approx(2 * min((means <= 0).mean(), (means >= 0).mean()), abs=0.05)
    with pytest.raises(ValueError, match="must score the same images, got 2 and 3 scores"):
        paired_bootstrap(torch.ones(2), torch.ones(3))


def test_features_are_described_by_numbers_that_numpy_gives():
    x = random(40, 6).double() * torch.tensor([3.0, 2, 1, 1, 1, 0]) + 1
    labels = torch.arange(40) % 3
    described = diagnose(x, labels, (x, x.roll(1, 0)), seed=2)
    values = np.sort(np.linalg.eigvalsh(np.cov(x.numpy().T, bias=True)))[::-1]
    assert (described.images, described.dimension, described.effective_rank_bound, described.dead_dimensions) == (
        40,
        6,
        6,
        1,
    )
    assert described.scale == pytest.approx(values.sum() ** 0.5)
    assert described.top_share == pytest.approx(values[0] / values.sum())
    unit = x / x.norm(dim=1, keepdim=True)
    assert described.alignment == pytest.approx(float((unit - unit.roll(1, 0)).square().sum(1).mean()))
    distances = torch.cdist(unit, unit).square()[*torch.triu_indices(40, 40, 1)]
    assert described.uniformity == pytest.approx(float((-2 * distances).exp().mean().log()))
    between = sum((labels == k).sum() * (x[labels == k].mean(0) - x.mean(0)).square().sum() for k in range(3))
    assert described.class_variance_share == pytest.approx(float(between / (x - x.mean(0)).square().sum()))
    assert diagnose(x).alignment is diagnose(x).class_variance_share is None
    constant = diagnose(torch.ones(5, 3))
    assert (constant.top_share, constant.scale, constant.effective_rank) == (1, 0, 1)
    assert class_variance_share(torch.ones(5, 3), labels[:5]) == 0
    with pytest.raises(ValueError, match="n of 3 or more, got"):
        diagnose(torch.ones(2, 3))
    assert diagnose(random(3, 4)).images == 3
    assert uniformity(random(60, 4), cap=10) == pytest.approx(
        uniformity(random(60, 4)[torch.randperm(60, generator=torch.Generator().manual_seed(0))[:10]], cap=99)
    )


def test_the_exponent_is_that_of_the_third_to_the_hundredth_direction():
    index = torch.arange(1, 301, dtype=torch.float64)
    values = index**-1.5
    values[:2], values[100:] = 50.0, 1e-6
    assert alpha_req(values) == pytest.approx(1.5)
    assert alpha_req(torch.tensor([1.0, 0.25])) == pytest.approx(2)
    assert alpha_req(torch.tensor([1.0, 0.0, 0.0, 0.0])) == math.inf
    assert alpha_req(index[:4] ** -2.0, first=2) == pytest.approx(2)


@pytest.mark.parametrize(
    ("rank", "bound", "scale", "words"),
    [
        (
            50.0,
            100,
            0.9e-3,
            "collapsed to a point: all images get nearly the same features (effective rank 50.0 of",
        ),
        (1.9, 100, 1e-3, "collapsed to a line: 75% of the variance lies in one direction (effective rank 1.9 of 100)"),
        (2.0, 100, 1.0, "partly collapsed: they use few directions (effective rank 2.0 of 100)"),
        (5.0, 100, 1.0, "not collapsed, though they use few of their directions (effective rank 5.0 of 100)"),
        (10.0, 400, 1.0, "not collapsed, though they use few of their directions (effective rank 10.0 of 400)"),
        (10.0, 100, 1.0, "not collapsed (effective rank 10.0 of 100)"),
    ],
)
def test_collapse_in_words_has_these_limits(rank, bound, scale, words):
    assert collapse_verdict(rank, bound, scale, 0.75).startswith(words)


def test_without_labels_the_verdict_is_of_the_features_alone():
    results = {"diagnostics": {"verdict": "not collapsed"}, "subjects": {"encoder": {}}}
    assert verdict(results) == "Without labels nothing can be said of accuracy; the features are not collapsed."
    clear = {"difference": 0.1, "low": 0.0, "high": 0.2, "p_value": 0.01}
    level = clear | {"p_value": 0.05}
    results["subjects"]["encoder"]["linear_probe"] = {"value": 0.5, "low": 0.4, "high": 0.6}
    results |= {"data": {"name": "mnist"}, "against": {}}
    opening = "A linear probe on the frozen encoder is right on 50.0 % of the mnist test images (40.0 % to 60.0 %)"
    assert verdict(results) == f"{opening}. The features are not collapsed."
    names = ("raw pixels", "random encoder", "supervised")
    results["against"] = {name: {"linear_probe": clear, "knn": level} for name in names}
    assert verdict(results).startswith(
        f"{opening}: 10.0 points above raw pixels, 10.0 points above the same encoder untrained and "
        "10.0 points above the same encoder taught with labels. "
    )
    results["against"] = {"raw pixels": {"linear_probe": level, "knn": clear | {"difference": -0.1}}}
    assert "no clear difference from raw pixels (+10.0 points, p = 0.05; k-NN: 10.0 points below)." in verdict(results)


def test_groups_are_named_in_order_with_their_own_spectrum():
    features, correct = random(60, 80), torch.arange(60) % 3 == 0
    names = ["b", "a", "c"] * 20
    report = by_group(correct.float(), features, names, seed=4)
    assert [(group.name, group.images) for group in report.groups] == [("a", 20), ("b", 20), ("c", 20)]
    assert (report.best, report.worst, report.gap) == ("b", "a", 1.0)
    rows = features[torch.arange(0, 60, 3)]
    values = np.linalg.eigvalsh(np.cov(rows.double().numpy().T, bias=True))[::-1]
    np.testing.assert_allclose(report.groups[1].eigenvalues[:19], values[:19], rtol=1e-4)
    assert len(by_group(torch.ones(60), features, ["x"] * 60).groups[0].eigenvalues) == 50
    for wrong in ((correct[:5], features, names), (correct, features[:5], names), (correct, features, names[:5])):
        with pytest.raises(ValueError, match="groups must name the group of each of the"):
            by_group(*wrong)


def test_confusion_counts_rows_of_true_classes():
    labels, predictions = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 2, 1, 1, 0])
    assert confusion(labels, predictions) == [[1, 0, 1], [1, 2, 0], [0, 0, 0]]


def test_an_entry_has_its_unit_its_interval_and_how_it_was_set():
    scores = right(0.5, 20)
    assert entry(scores, "knn", 3, {"k": 5}) == {
        **bootstrap_interval(scores, seed=3)._asdict(),
        "unit": "fraction of test images",
        "settings": {"k": 5},
    }
    installed = versions()
    assert installed["torch"] == metadata.version("torch")
    assert [*installed] == ["python", "kvicreg", "torch", "numpy", "scikit-learn", "umap-learn"]


def test_raw_pixels_are_shrunk_to_at_most_so_many_features():
    small, large = RawPixels((1, 28, 28)), RawPixels((3, 64, 64))
    assert (small.feature_dim, small.shrink) == (784, False)
    assert (large.feature_dim, large.side, large.shrink) == (3072, 32, True)
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    pixels = large(large.preprocess(images))
    expected = images.float().div(255).view(2, 3, 32, 2, 32, 2).mean((3, 5)).flatten(1)
    torch.testing.assert_close(pixels, expected)
    assert RawPixels((3, 32, 32)).shrink is False
    assert RawPixels((1, 8, 8), max_features=16).feature_dim == 16


def test_a_map_shows_small_pictures_of_a_sample():
    order = torch.randperm(50, generator=torch.Generator().manual_seed(7))
    assert map_subset(50, cap=8, seed=7).tolist() == sorted(order[:8].tolist())
    assert map_subset(5).tolist() == [0, 1, 2, 3, 4]
    assert len(map_subset(4000)) == 3000
    images = torch.full((2, 1, 64, 64), 9, dtype=torch.uint8)
    assert thumbnails(images).shape == (2, 32, 32, 1)
    assert thumbnails(images[..., :20, :20]).shape == (2, 20, 20, 1)
    assert thumbnails(images, side=16).shape == (2, 16, 16, 1)


def test_sgd_is_plain_and_starts_from_zero():
    x, y = random(50, 4) * 3 + 1, torch.arange(50) % 3 * 2
    result = sgd_probe(x, y, x, y, epochs=4, batch_size=100, learning_rate=0.5, seed=3)
    assert result.settings == {"epochs": 4, "batch_size": 16, "learning_rate": 0.5, "seed": 3}
    rows = ((x.double() - x.double().mean(0)) / x.double().std(0, correction=0)).float() / 2
    head, generator = nn.Linear(4, 3), torch.Generator().manual_seed(3)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    momentum, step = [torch.zeros(3, 4), torch.zeros(3)], 0
    for _ in range(4):
        for batch in torch.randperm(50, generator=generator).split(16):
            loss = nn.functional.cross_entropy(head(rows[batch]), y[batch] // 2)
            gradients = torch.autograd.grad(loss, [head.weight, head.bias])
            rate = 0.5 * (1 + math.cos(math.pi * step / 16)) / 2
            step += 1
            for m, g, p in zip(momentum, gradients, (head.weight, head.bias), strict=True):
                m.mul_(0.9).add_(g)
                p.data.sub_(rate * m)
    assert result.predictions.tolist() == (2 * head(rows).argmax(1)).tolist()
    large = sgd_probe(random(40, 2), torch.arange(40) % 2, random(4, 2), torch.arange(4) % 2, epochs=1)
    assert (large.settings["batch_size"], large.settings["learning_rate"]) == (16, 1.0)


def test_few_labels_are_the_first_of_each_class_in_a_random_order():
    labels = torch.tensor([5] * 10 + [7] * 3)
    order = torch.randperm(13, generator=torch.Generator().manual_seed(2)).tolist()
    expected = [i for i in order if labels[i] == 5][:3] + [i for i in order if labels[i] == 7][:1]
    assert labelled_subset(labels, 0.3, seed=2).tolist() == sorted(expected)
    assert len(labelled_subset(labels, 1.0, seed=2)) == 13
    x = random(13, 2)
    result = few_label_probe(x, labels, x, labels, fraction=0.5, seed=1)
    assert (result.settings["fraction"], result.settings["labels"], result.settings["seed"]) == (0.5, 7, 1)
    assert result.settings["C_chosen_on"] == "default, too few labels for a split"
    assert result.settings["C"] == 0.1
    assert fit_linear_probe(x, labels, C=2.0).settings == {
        "C": 2.0, "C_chosen_on": "given", "max_iter": 200, "converged": True,
    }  # fmt: skip
    for wrong in (0, 1.5):
        with pytest.raises(ValueError, match="fraction must be above 0 and at most 1"):
            few_label_probe(x, labels, x, labels, fraction=wrong)
    few_label_probe(x, labels, x, labels, fraction=1)
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        knn(x, labels, x, labels, k=3, temperature=0)
    with pytest.raises(ValueError, match="k must be between 1 and the 13 train images, got 0"):
        knn(x, labels, x, labels, k=0)
    default = knn(random(30, 2), torch.arange(30) % 2, x, labels)
    assert default.settings == {"k": 20, "temperature": 0.07}
    knn(x, labels, x, labels, k=13)


def test_a_constant_feature_is_left_as_it_is():
    x = torch.cat([random(30, 2) * 5, torch.full((30, 1), 3.0)], 1)
    probe = fit_linear_probe(x, torch.arange(30) % 2, C=1.0)
    torch.testing.assert_close(probe.mean, x.mean(0))
    torch.testing.assert_close(probe.scale, torch.cat([x[:, :2].std(0, correction=0), torch.ones(1)]))


def test_clusters_are_repeatable_and_as_many_as_classes():
    x, labels = random(60, 4) + 4 * torch.eye(4)[torch.arange(60) % 3], torch.arange(60) % 3
    once = clustering(x, labels, seed=1)
    assert once == clustering(3 * x, labels, seed=1)
    assert once.clusters == 3
    assert once.nmi.low <= once.nmi.value <= once.nmi.high
    for wrong in ((x[0], labels), (x, labels[:5])):
        with pytest.raises(ValueError, match=r"x must be \(n, q\) with n labels"):
            clustering(*wrong)


def test_curves_tell_each_shift_by_its_amounts():
    images = torch.randint(0, 256, (12, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels, samples = torch.arange(12) % 2, torch.arange(12)
    seen = []

    def encode(alter):
        changed = alter(images, samples)
        seen.append(changed)
        return changed.flatten(1).float()

    probe = fit_linear_probe(images.flatten(1).float(), labels, C=1.0)
    curves = robustness(encode, probe, labels, shifts=("noise", "blur"), seed=3)
    assert [(curve.shift, curve.unit, curve.amounts) for curve in curves] == [
        (name, *SHIFTS[name]) for name in ("noise", "blur")
    ]
    assert len(seen) == 11
    assert curves[0].accuracy[0] == curves[1].accuracy[0]
    right_ones = (probe.predict(seen[1].flatten(1).float()) == labels).float()
    assert curves[0].accuracy[1] == bootstrap_interval(right_ones, seed=3)
    assert seen[1].equal(shifted(images, "noise", 1, samples, seed=3))
    assert not seen[1].equal(shifted(images, "noise", 1, samples, seed=4))


def test_a_translation_moves_by_its_share_of_the_side():
    image = torch.zeros(64, 1, 50, 50, dtype=torch.uint8)
    image[:, :, 24:26, 24:26] = 255
    moved = shifted(image, "translation", 5, torch.arange(64)).float()
    grid = torch.arange(50.0)
    total = moved.sum((1, 2, 3))
    centre = torch.stack([(moved.sum((1, 2)) * grid).sum(1), (moved.sum((1, 3)) * grid).sum(1)], 1) / total[:, None]
    distance = (centre - 24.5).norm(dim=1)
    torch.testing.assert_close(distance, torch.full((64,), 10.0), atol=0.3, rtol=0)
    assert (centre - 24.5).mean(0).norm() < 4, "in all directions"


def test_an_export_is_compared_on_several_batches():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    sizes = []

    def other(images):
        sizes.append(len(images))
        return model(images) * (1 + 5e-5)

    assert _difference(model, other, (1, 2, 2)) == pytest.approx(5e-5, rel=0.02)
    assert sizes == [1, 2, 5]
    with pytest.raises(ValueError, match="differs from the encoder by 2.0e-04: nothing was written"):
        _difference(model, lambda images: model(images) * (1 + 2e-4), (1, 2, 2))
    with pytest.raises(ValueError, match=r"the export gives \(1, 2\), not \(1, 3\): nothing was written"):
        _difference(model, lambda images: model(images)[:, :2], (1, 2, 2))
    with pytest.raises(ValueError, match="differs from the encoder by nan"):
        _difference(model, lambda images: model(images) * math.nan, (1, 2, 2))
