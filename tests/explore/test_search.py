"""Indices, duplicates, outliers and subsets agree with what a full comparison gives."""

import shutil

import pytest
import torch
from photographs import draw
from PIL import Image, ImageOps
from torch.nn.functional import normalize

from kvicreg.explore import Index, coreset, duplicate_groups, duplicate_pairs, leaks, open_images, outlier_scores
from kvicreg.explore.space import Space


def random_rows(count, width=16, seed=0):
    return normalize(torch.randn(count, width, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_few_rows_are_searched_exactly():
    rows, queries = random_rows(300), random_rows(20, seed=1)
    index = Index(rows)
    indices, cosines = index.search(queries, 5)
    assert index.graph is None
    assert index.recall() == 1.0
    torch.testing.assert_close(cosines, (queries @ rows.T).sort(1, descending=True).values[:, :5])
    assert indices.equal((queries @ rows.T).argsort(1, descending=True)[:, :5])


def test_a_graph_gives_nearly_all_of_the_nearest_and_is_stored(tmp_path, monkeypatch):
    rows, reported = random_rows(3000), []
    index = Index(rows, tmp_path, exact_below=100, progress=lambda done, total: reported.append((done, total)))
    assert index.graph is not None
    assert reported == [(3000, 3000)]
    assert index.recall() > 0.95
    again = Index(rows, tmp_path, exact_below=100, progress=lambda done, total: pytest.fail("it was built again"))
    assert again.search(rows[:5], 1)[0][:, 0].tolist() == [0, 1, 2, 3, 4]


def test_recall_tells_a_bad_index():
    index = Index(random_rows(500))
    index.search = lambda queries, count: (torch.zeros(len(queries), count, dtype=torch.long), None)
    assert index.recall() < 0.05


def test_the_space_makes_variances_alike():
    x = torch.randn(5000, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([10.0, 1.0, 1.0, 1.0]) + 3
    space = Space(x, power=1.0)
    assert (space.matrix.diagonal() * torch.tensor([10.0, 1, 1, 1]) - 1).abs().max() < 0.25
    torch.testing.assert_close(space(x).norm(dim=1), torch.ones(5000))


@pytest.fixture
def planted(photos, tmp_path):
    """Among 40 images a copy, a mirror image and a re-encoded one, and one that is like no other."""
    original = photos / "green" / "004.png"
    shutil.copy(original, photos / "green" / "copy.png")
    ImageOps.mirror(Image.open(photos / "green" / "006.png")).save(photos / "green" / "mirror.png")
    Image.open(photos / "red <b>" / "005.png").save(photos / "red <b>" / "again.jpg", quality=60)
    noise = torch.randint(0, 255, (48, 48, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    Image.fromarray(noise.numpy()).save(photos / "green" / "odd.png")
    return open_images("pixels", photos, cache=tmp_path / "cache")


def test_planted_duplicates_are_grouped_and_nothing_else(planted):
    groups = {tuple(planted.names[i] for i in group) for group in duplicate_groups(planted, 0.95)}
    expected = {("green/004.png", "green/copy.png"), ("red <b>/005.png", "red <b>/again.jpg")}
    assert groups == expected | {("green/006.png", "green/mirror.png")}
    without = {tuple(planted.names[i] for i in g) for g in duplicate_groups(planted, 0.95, mirrored=False)}
    assert without == expected


def test_pairs_are_in_order_and_a_lower_threshold_only_adds(planted):
    pairs, cosines = duplicate_pairs(planted, 0.2)
    assert (cosines.diff() <= 0).all()
    assert (pairs[:, 0] < pairs[:, 1]).all()
    few = {tuple(pair) for pair in duplicate_pairs(planted, 0.9)[0].tolist()}
    assert few < {tuple(pair) for pair in pairs.tolist()}


def test_groups_with_the_most_alike_pair_come_first(planted):
    names = [{planted.names[i] for i in group} for group in duplicate_groups(planted, 0.9)]
    assert {"green/004.png", "green/copy.png"} in names[:2]
    assert {"green/006.png", "green/mirror.png"} in names[:2]
    assert names[2] == {"red <b>/005.png", "red <b>/again.jpg"}


def test_no_duplicates_are_no_groups(images):
    assert duplicate_groups(images, 1.0) == []
    with pytest.raises(ValueError, match="threshold must be a cosine from -1 to 1, got 2"):
        duplicate_groups(images, 2)


def test_leaks_name_the_image_and_its_twin(images, tmp_path):
    (tmp_path / "test").mkdir()
    draw(1, 7).save(tmp_path / "test" / "leak.png")
    draw(1, 99).save(tmp_path / "test" / "fresh.png")
    others = open_images("pixels", tmp_path / "test", cache=tmp_path / "cache")
    (leak,) = leaks(images, others, 0.99)
    assert (images.names[leak.index], others.names[leak.other]) == ("green/007.png", "leak.png")


def test_the_odd_one_has_the_highest_score(planted):
    assert planted.names[int(outlier_scores(planted).argmax())] == "green/odd.png"


def test_a_coreset_is_diverse_and_grows_by_adding(planted):
    few, more = coreset(planted, 5).tolist(), coreset(planted, 12).tolist()
    assert more[:5] == few
    assert len({*more}) == 12

    def cover(rows):
        return float((planted.unit @ planted.unit[rows].T).amax(1).min())

    drawn = [torch.randperm(len(planted), generator=torch.Generator().manual_seed(s))[:12].tolist() for s in range(9)]
    assert all(cover(more) > cover(rows) for rows in drawn)
    with pytest.raises(ValueError, match="keep must be from 1 to 44, the number of readable images, got 45"):
        coreset(planted, 45)
