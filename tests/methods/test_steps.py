"""A step of a method is its loss of what its networks make of the views; what moves afterwards moves as published."""

from __future__ import annotations

import copy

import pytest
import torch
from small_methods import NAMES, batch, build, options_of
from torch import nn
from torch.nn.functional import cross_entropy, normalize
from torch.utils.flop_counter import FlopCounterMode

from kvicreg import losses
from kvicreg.methods import BYOL, DINO, METHODS, MethodOptions, MoCo, SimSiam, Supervised, SwAV
from kvicreg.methods.base import ManyViews, Method
from kvicreg.methods.queue import Queue
from kvicreg.methods.target import Target, rising
from kvicreg.models import Projector, SmallCNN


def moved(module):
    """The same module with other weights."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1)
    return module


def test_byol_predicts_the_slow_copys_embeddings_of_the_same_views():
    method, (views, _) = build("byol"), batch(0)
    moved(method.encoder)
    result = method(views, 0)
    z, t = [method.embed(view) for view in views], [method.target(view) for view in views]
    assert not z[0].allclose(t[0])
    expected = losses.BYOLLoss()(*(method.predictor(each) for each in z), *t)
    torch.testing.assert_close(result.loss, expected)
    assert result.embeddings.equal(z[0].detach())
    widths = [(m.in_features, m.out_features) for m in method.predictor if isinstance(m, nn.Linear)]
    assert widths == [(8, 16), (16, 8)]
    assert isinstance(method.predictor[1], nn.LayerNorm)


@pytest.mark.parametrize("name", ["byol", "dino", "kernel-byol"])
def test_the_slow_copys_momentum_rises_from_its_setting(name):
    method = build(name)
    before = [p.clone() for p in method.target.parameters()]
    parts = [method.encoder, method.projector] + ([method.prototypes] if name == "dino" else [])
    moved(nn.ModuleList(parts))
    method.after_step(30, 100)
    step = 0.1 * (1 - rising(0.99, 30, 100))
    for old, new in zip(before, method.target.parameters(), strict=True):
        torch.testing.assert_close(new, old + step)


def test_moco_tells_its_key_from_those_of_former_batches():
    method, (views, _) = build("moco"), batch(0)
    moved(method.encoder)
    former = method.queue.entries.clone()
    result = method(views, 0)
    queries, keys = method.embed(views[0]), method.target(views[1])
    torch.testing.assert_close(result.loss, losses.InfoNCELoss()(queries, keys, former))
    assert result.embeddings.equal(queries.detach())
    torch.testing.assert_close(method.queue.entries[: len(keys)], normalize(keys))
    assert method.queue.entries[len(keys) :].equal(former[len(keys) :])
    before = [p.clone() for p in method.target.parameters()]
    online = [*method.encoder.parameters(), *method.projector.parameters()]
    method.after_step(1, 2)
    for old, new, source in zip(before, method.target.parameters(), online, strict=True):
        torch.testing.assert_close(new, 0.99 * old + 0.01 * source)


def test_simsiam_predicts_its_own_normalized_embeddings():
    method, (views, _) = build("simsiam"), batch(0)
    z = [method.output_norm(method.embed(view)) for view in views]
    torch.testing.assert_close(z[0].mean(1), torch.zeros(16, dtype=torch.float64), atol=1e-7, rtol=0)
    assert not [*method.output_norm.parameters()]
    result = method(views, 0)
    torch.testing.assert_close(result.loss, losses.SimSiamLoss()(*(method.predictor(each) for each in z), *z))
    assert result.embeddings.equal(z[0].detach())
    published = SimSiam(SmallCNN(width=0.25), Projector(128, 16, 10))
    assert published.predictor.description["hidden"] == 2
    assert published.predictor.description["layers"] == 2
    assert isinstance(published.output_norm, nn.BatchNorm1d)
    assert not published.output_norm.affine
    assert SimSiam(SmallCNN(width=0.25), Projector(128, 16, 3)).predictor.description["hidden"] == 1


def test_swav_waits_for_its_queue_and_its_prototypes():
    method = build("swav")  # 16 images a step, a queue of 40, prototypes that learn from step 2
    for step in range(4):
        views, _ = batch(step, views=3)
        z = [method.embed(view) for view in views]
        scores = [method.prototypes(each) for each in z]
        queued = [queue.entries.clone() for queue in method.queues]
        former = torch.stack([method.prototypes(each) for each in queued]).detach() if step == 3 else None
        result = method(views, step)
        torch.testing.assert_close(result.loss, losses.SwAVLoss()(*scores, former=former))
        assert result.embeddings.equal(z[0].detach())
        (gradient,) = torch.autograd.grad(result.loss, method.prototypes.weight)
        assert bool(gradient.any()) == (step >= 2)
        newest = (16 * step + torch.arange(16)) % 40
        for queue, each in zip(method.queues, z, strict=False):
            torch.testing.assert_close(queue.entries[newest], each.detach())
    assert len(SwAV(SmallCNN(width=0.25), Projector(128, 16, 8)).queues) == 0


def test_dino_learns_from_its_teachers_scores_of_the_first_two_views():
    method, loss = build("dino"), losses.DINOLoss(1024).double()
    moved(method.encoder)
    for step in range(3):
        views, _ = batch(step, views=3)
        z = [method.embed(view) for view in views]
        teacher = torch.stack([method.target(view) for view in views[:2]])
        result = method(views, step)
        torch.testing.assert_close(result.loss, loss(teacher, *(method.prototypes(each) for each in z)))
        assert result.embeddings.equal(z[0].detach())
        (gradient,) = torch.autograd.grad(result.loss, method.prototypes.weight)
        assert bool(gradient.any()) == (step >= 2)
    assert len(method.target.copies) == 3


def test_the_supervised_control_is_the_mean_cross_entropy_of_all_views():
    method, (views, labels) = build("supervised"), batch(0, views=3)
    logits = [method.classifier(method.encoder(view)) for view in views]
    result = method(views, 0, labels)
    torch.testing.assert_close(result.loss, sum(cross_entropy(each, labels) for each in logits) / 3)
    assert result.embeddings.equal(method.encoder(views[0]).detach())
    assert isinstance(method.projector, nn.Identity)
    assert logits[0].shape == (16, 3)
    options = METHODS.find("supervised").of()
    assert options.resolved(7).classes == 7
    assert options.replace(classes=4).resolved(7).classes == 4
    with pytest.raises(ValueError, match="needs labels, and these images have none"):
        options.heads("batch")


SIAMESE = [
    name for name in NAMES if hasattr(options_of(name), "method") and hasattr(options_of(name).method.Loss, "terms")
]


@pytest.mark.parametrize("name", SIAMESE)
def test_methods_that_are_a_loss_log_its_terms(name):
    method = build(name)
    views, _ = batch(0, views=method.view_count)
    z = [method.embed(view) for view in views]
    terms = copy.deepcopy(method.loss).step(*z)
    result = method(views, 0)
    torch.testing.assert_close(result.loss, terms.total)
    assert result.embeddings.equal(z[0].detach())
    assert {key: float(value) for key, value in result.terms.items()} == pytest.approx(
        {key: float(value.detach()) for key, value in terms._asdict().items() if key != "total"}
    )


def test_groups_reach_the_loss_where_there_are_any():
    method, (views, _) = build("kernel-vicreg"), batch(0)
    groups = torch.arange(16) % 2
    z = [method.embed(view) for view in views]
    torch.testing.assert_close(method(views, 0, groups=groups).loss, method.loss.terms(*z, groups=groups).total)
    torch.testing.assert_close(method(views, 0).loss, method.loss.terms(*z).total)


def test_networks_have_the_settings_of_their_papers_or_of_short_training():
    encoder, projector = SmallCNN(width=0.25), Projector(128, 16, 8)
    byol, moco = BYOL(encoder, projector), MoCo(encoder, projector)
    assert (byol.target_momentum, byol.predictor.description["hidden"]) == (0.99, 1024)
    assert isinstance(byol.predictor[1], nn.BatchNorm1d)
    assert (moco.target_momentum, moco.queue.size, moco.queue.entries.shape) == (0.99, 4096, (4096, 8))
    swav, dino = SwAV(encoder, projector), DINO(encoder, projector)
    assert (swav.frozen_steps, swav.prototypes.weight.shape) == (30, (128, 8))
    assert (dino.frozen_steps, dino.target_momentum, dino.prototypes.weight.shape) == (30, 0.99, (1024, 8))
    assert Supervised(encoder, projector).classifier.out_features == 10
    for weight in (swav.prototypes.weight, moco.queue.entries):
        torch.testing.assert_close(weight.norm(dim=1), torch.ones(len(weight)))


def test_a_slow_copy_follows_statistics_only_where_asked():
    online = nn.BatchNorm1d(2)
    target = Target(online)
    online.running_mean.fill_(1.0)
    online.num_batches_tracked.fill_(8)
    target.follow(online, momentum=0.75)
    assert target.copies[0].running_mean.tolist() == [0, 0]
    target.follow(online, momentum=0.75, buffers=True)
    assert target.copies[0].running_mean.tolist() == [0.25, 0.25]
    assert int(target.copies[0].num_batches_tracked) == 0
    assert rising(0.9, 300, 100) == 1


def test_a_queue_says_when_it_is_full_and_remembers_where_it_was():
    queue = Queue(4, 2)
    for count, full in ((3, False), (1, True), (1, True)):
        queue.push(torch.full((count, 2), float(count)))
        assert queue.full == full
    assert queue.entries[:, 0].tolist() == [1, 3, 3, 1]
    other = Queue(4, 2)
    other.load_state_dict(queue.state_dict())
    other.push(torch.full((1, 2), 9.0))
    assert other.entries[:, 0].tolist() == [1, 9, 3, 1]


def test_methods_have_a_name_for_folders_and_words_for_people():
    names = {name: METHODS.find(name).of() for name in ("simclr", "kernel-simclr", "kernel-vicreg", "i-vne")}
    assert {name: options.label for name, options in names.items()} == {
        "simclr": "simclr",
        "kernel-simclr": "kernel-simclr-rbf",
        "kernel-vicreg": "rbf",
        "i-vne": "i-vne-linear",
    }
    assert names["simclr"].describe() == "simclr"
    assert names["kernel-simclr"].describe() == "kernel-simclr with the rbf kernel"
    mixed = METHODS.find("kernel-vicreg").of(kernel="2*rbf+linear")
    assert mixed.label == "2rbf+linear"
    assert METHODS.find("kernel-byol").of(kernel="2*rbf+linear").label == "kernel-byol-2rbf+linear"


def test_defaults_are_written_out_before_training():
    assert METHODS.find("kernel-vicreg").of().resolved().loss.flat()["covariance_weight"] == 0.02
    assert METHODS.find("vicreg").of().resolved().loss.flat()["covariance_weight"] == 1.0
    assert METHODS.find("kernel-barlow-twins").of().resolved().loss.redundancy_weight == 0.1
    simclr = METHODS.find("simclr").of()
    assert simclr.resolved() is simclr
    assert METHODS.find("swav").of(local_crops=2).views_seen.local_crop_area == 0.14
    assert METHODS.find("dino").of(local_crops=2).views_seen.local_crop_area == 0.4
    assert METHODS.find("simclr").of().views_seen == ManyViews()
    assert METHODS.find("dino").of(local_crops=2, views_per_image=3).views_seen.count == 5


def products_of(views: int, **settings) -> int:
    """Multiplications in matrix products of one step of the loss, as it is trained with so many views."""
    options = METHODS.find("kernel-vicreg").of(views_per_image=views, **settings).resolved()
    loss = options.build(SmallCNN(width=0.25), Projector(128, 16, 8)).loss
    z = torch.randn(views, 128, 16, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        loss(*z).backward()
    return counter.get_total_flops()


def test_the_cost_of_many_views_is_linear_in_their_number_unless_one_spectrum_is_asked_for():
    each, one = ([products_of(views, spectrum=name) for views in (2, 4, 8)] for name in ("per-view", "shared"))
    assert [products_of(views) for views in (2, 4, 8)] == [one[0], each[1], each[2]]
    assert each[2] == pytest.approx(4 * each[0], rel=0.2)
    assert one[2] > 8 * one[0]


@pytest.mark.parametrize("name", ["lejepa", "visreg"])
def test_what_a_loss_draws_depends_on_the_seed(name):
    encoder, projector = SmallCNN(width=0.25), Projector(128, 16, 8)
    z = torch.randn(2, 12, 8)
    first, again, other = (
        float(METHODS.find(name).of().build(encoder, projector, seed=seed).loss.terms(*z).total) for seed in (0, 0, 5)
    )
    assert first == again
    assert first != other
    assert (
        METHODS.find("kernel-vicreg")
        .of(approximation="nystrom")
        .build(encoder, projector, seed=3)
        .loss.approximation.seed
        == 3
    )


def test_settings_that_nothing_reads_are_refused():
    for setting in ({"group_weight": 0.3}, {"group_bandwidth": True}):
        with pytest.raises(ValueError, match=f"{next(iter(setting))} is read only with groups, which is not given"):
            METHODS.find("kernel-vicreg").of(**setting)
        METHODS.find("kernel-vicreg").of(**setting, groups="groups.csv:sex")
    with pytest.raises(ValueError, match="learn_mixture_by is read only with learn_mixture"):
        METHODS.find("kernel-vicreg").of(learn_mixture_by="loss", kernel="rbf+linear")
    METHODS.find("kernel-vicreg").of(learn_mixture_by="loss", kernel="rbf+linear", learn_mixture=True)
    with pytest.raises(ValueError, match="learn_mixture is for kernel-vicreg; under kernel-simclr the shares"):
        METHODS.find("kernel-simclr").of(kernel="rbf+linear", learn_mixture=True)


def test_a_method_says_what_it_must_define():
    with pytest.raises(TypeError, match="MethodOptions must name its class as method, or define build"):
        MethodOptions().build(SmallCNN(), Projector(512))

    class Nothing(Method):
        Loss = nn.MSELoss

    method = Nothing(SmallCNN(), Projector(512))
    assert isinstance(method.loss, nn.MSELoss)
    with pytest.raises(NotImplementedError):
        method(torch.zeros(2, 4, 1, 28, 28), 0)


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_heads_are_normalized_as_asked(norm):
    encoder, projector = SmallCNN(width=0.25), Projector(128, 16, 8)
    kind = nn.BatchNorm1d if norm == "batch" else nn.LayerNorm
    for name in ("byol", "kernel-byol", "simsiam"):
        method = METHODS.find(name).of().build(encoder, projector, norm=norm)
        assert isinstance(method.predictor[1], kind), name
    assert isinstance(METHODS.find("byol").of().build(encoder, projector).predictor[1], nn.BatchNorm1d)
