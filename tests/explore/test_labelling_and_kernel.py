"""Labels outlive everything, the probe learns from them and asks well, and kernel PCA is scikit-learn's."""

import sys
import types

import numpy as np
import pytest
import torch

from kvicreg.data import ArrayData, load
from kvicreg.explore import KernelView, LabelFile, Learner, open_images
from kvicreg.explore.layout import principal_layout, umap_layout


def test_labels_are_in_the_file_when_set_returns_and_train_reads_it(images, tmp_path):
    labels = LabelFile(images, tmp_path / "labels.csv")
    labels.set([0, 30], 'with "quotes", and <b>')
    labels.set([3], "other")
    labels.set([30], None)
    again = LabelFile(images, tmp_path / "labels.csv")
    assert again.labels == {0: 'with "quotes", and <b>', 3: "other"}
    data = load(tmp_path / "labels.csv")
    assert data.class_names == ["other", 'with "quotes", and <b>']
    assert [path.resolve() for path in data.paths] == [images.data.paths[i].resolve() for i in (0, 3)]


def test_labels_of_other_images_stay_in_the_file(images, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("image,label\nelsewhere/1.png,cat\n")
    LabelFile(images, path).set([1], "dog")
    assert "elsewhere/1.png,cat\n" in path.read_text()


def test_a_file_of_another_kind_is_not_overwritten(images, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("name,price\na,3\n")
    with pytest.raises(ValueError, match="expected the columns image and label"):
        LabelFile(images, path)


@pytest.mark.parametrize(("indices", "label"), [([40], "a"), ([-1], "a"), ([0], "  "), ([0], "x" * 201)])
def test_wrong_labels_are_refused_and_change_nothing(images, tmp_path, indices, label):
    labels = LabelFile(images, tmp_path / "labels.csv")
    with pytest.raises(ValueError):
        labels.set(indices, label)
    assert labels.labels == {}


def test_labelled_arrays_are_exported_for_training(tmp_path):
    data = ArrayData(torch.randint(0, 255, (20, 1, 16, 16), dtype=torch.uint8))
    labels = LabelFile(open_images("pixels", data, cache=tmp_path / "cache"), tmp_path / "labels.csv")
    labels.set([4], "b")
    labels.set([2], "a")
    with open(tmp_path / "labelled.npz", "wb") as file:
        labels.export_arrays(file)
    labelled = load(tmp_path / "labelled.npz")
    assert labelled.fetch(torch.arange(2)).equal(data.fetch(torch.tensor([2, 4])))
    assert labelled.labels.tolist() == [0, 1]


def truth(images):
    return [name.split("/")[0] for name in images.names]


def test_a_few_labels_are_enough_for_two_kinds_of_images(images):
    learner, names, labels = Learner(images, clusters=4), truth(images), {}
    while len(labels) < 6:
        (index,) = learner.ask(labels, learner.learn(labels))
        assert index not in labels
        labels[index] = names[index]
    opinion = learner.learn(labels)
    predicted = [opinion.classes[number] for number in opinion.prediction.tolist()]
    assert np.mean(np.array(predicted) == np.array(names)) > 0.9
    assert opinion.margin[list(labels)].mean() > opinion.margin.mean()


def test_when_all_clusters_are_covered_the_least_sure_image_is_asked_for(images):
    learner, names = Learner(images, clusters=3), truth(images)
    labels = {index: names[index] for index in range(0, 40, 2)}
    opinion = learner.learn(labels)
    rest = [index for index in range(40) if index not in labels]
    assert learner.ask(labels, opinion)[0] == min(rest, key=lambda index: float(opinion.margin[index]))
    assert len(learner.ask(labels, opinion, count=100)) == 20


def test_one_class_is_no_opinion_and_questions_go_on(images):
    learner = Learner(images, clusters=3)
    assert learner.learn({0: "a", 1: "a"}) is None
    assert len(learner.ask(dict.fromkeys(range(39), "a"))) == 1


def test_components_are_those_of_sklearns_kernel_pca(images):
    from sklearn.decomposition import KernelPCA

    view = KernelView(images, "rbf", landmarks=1000, components=3)
    gram = view.kernel(view.points).double().numpy()
    scores = KernelPCA(3, kernel="precomputed").fit_transform(gram)
    expected = scores / scores.std(0)
    correlation = np.abs((view.components.double().numpy() * expected).mean(0))
    np.testing.assert_allclose(correlation, 1, atol=1e-3)
    assert (view.shares.diff() < 0).all()
    high, low = view.gallery(0, 5)
    assert view.components[high, 0].min() > view.components[low, 0].max()


def test_kernel_values_are_the_kernels_and_one_for_the_image_itself(images):
    view = KernelView(images, "rbf")
    values = view.values(4, torch.tensor([4, 9]))
    assert values[0] == pytest.approx(1.0)
    assert values[1] == pytest.approx(float(view.kernel(view.points)[4, 9]), rel=1e-4)
    with pytest.raises(ValueError, match="component must be from 0 to 7, got 8"):
        view.gallery(8)


def test_layouts_keep_kinds_of_images_apart(images):
    points = principal_layout(images)
    assert points.shape == (40, 2)
    assert points.abs().max() <= 1
    kinds = torch.tensor([name.startswith("green") for name in images.names])
    apart = (points[kinds].mean(0) - points[~kinds].mean(0)).norm()
    assert apart > points[kinds].std(0).norm()


def test_umap_is_given_the_graph_of_neighbours(images, monkeypatch):
    """The real one compiles for half a minute."""
    seen = {}

    class FakeUMAP:
        def __init__(self, **settings):
            seen.update(settings)

        def fit_transform(self, x):
            return seen["init"]

    monkeypatch.setitem(sys.modules, "umap", types.SimpleNamespace(UMAP=FakeUMAP))
    start = principal_layout(images)
    points = umap_layout(start, *images.neighbours)
    nearest, distances = seen["precomputed_knn"]
    assert (nearest[:, 0] == np.arange(40)).all()
    assert (nearest[:, 1:] == images.neighbours[0].numpy()).all()
    assert (np.diff(distances, axis=1) >= 0).all()
    assert seen["n_neighbors"] == nearest.shape[1] == 16
    assert torch.corrcoef(torch.stack((points[:, 0], start[:, 0])))[0, 1] > 0.99
