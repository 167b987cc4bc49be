"""What a replay looks at on its way to the failed batch, what it is built from, and what it says."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from kvicreg.losses.terms import NotFiniteViews
from kvicreg.runs import RunFolder
from kvicreg.training import replay as module
from kvicreg.training import run as running
from kvicreg.training.guard import save_fault
from kvicreg.training.replay import FaultFinder, _Reached, _some, explain, replay

IMAGES, SAMPLES = torch.arange(48).reshape(3, 1, 4, 4), torch.tensor([7, 2, 5])
FAULT = {"batch": 4, "images": IMAGES, "samples": SAMPLES}


class Two(nn.Module):
    """A method of two layers, the first of which is in a part of its own."""

    def __init__(self):
        super().__init__()
        self.encoder, self.projector = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 2)

    def forward(self, x):
        return self.projector(self.encoder(x))


def finding(done, *, scaled=False, method=None):
    finder = FaultFinder(FAULT, scaled_gradients=scaled)
    return finder, SimpleNamespace(batches_done=done, method=method or Two())


def test_nothing_is_looked_at_before_the_batch():
    finder, about = finding(3)
    before = finder.outcome.copy()
    finder.on_train_batch_start(None, about, (IMAGES, SAMPLES, None), 0)
    finder.on_before_backward(None, about, torch.tensor(math.inf))
    finder.on_train_batch_end(None, about)
    assert finder.outcome == before == {"gradient": None, "module": None, "weights": [], "after": []}


@pytest.mark.parametrize(
    ("images", "samples", "same"),
    [
        (IMAGES, SAMPLES, True),
        (IMAGES.flip(0), SAMPLES.flip(0), True),  # in another order
        (torch.cat([IMAGES, IMAGES]), torch.cat([SAMPLES, SAMPLES + 10]), True),  # of more processes
        (IMAGES.flip(0), SAMPLES, False),
        (IMAGES + 1, SAMPLES, False),
        (IMAGES, SAMPLES + 1, False),
    ],
)
def test_the_batch_is_compared_with_that_which_was_kept(images, samples, same):
    finder, about = finding(4)
    finder.on_train_batch_start(None, about, (images, samples, None), 0)
    assert finder.outcome["batch_is_the_same"] is same
    assert finder.outcome["weights"] == []


def test_the_first_part_with_an_output_that_is_not_finite_is_named():
    finder, about = finding(4)
    about.method.encoder[0].weight.data[0, 0] = math.inf
    finder.on_train_batch_start(None, about, (IMAGES, SAMPLES, None), 0)
    about.method(torch.ones(3, 2))
    assert finder.outcome["module"] == "encoder.0"
    assert finder.outcome["weights"] == ["encoder.0.weight"]


def test_finite_outputs_and_those_that_are_no_tensors_are_passed():
    class Pair(nn.Module):
        def forward(self, x):
            return x * math.nan, x

    finder, about = finding(4, method=Pair())
    finder.on_train_batch_start(None, about, (IMAGES, SAMPLES, None), 0)
    about.method(torch.ones(3, 2))
    assert finder.outcome["module"] is None
    finder, about = finding(4, method=nn.Identity())
    finder.on_train_batch_start(None, about, (IMAGES, SAMPLES, None), 0)
    about.method(torch.ones(3, 2))
    assert finder.outcome["module"] is None
    about.method(torch.full((3, 2), math.nan))
    assert finder.outcome["module"] == "method"


@pytest.mark.parametrize(("loss", "kept"), [(math.nan, "nan"), (math.inf, "inf"), (1.5, 1.5)])
def test_the_loss_of_the_batch_is_kept_and_ends_the_replay_if_not_finite(loss, kept):
    finder, about = finding(5)
    if isinstance(kept, str):
        with pytest.raises(_Reached):
            finder.on_before_backward(None, about, torch.tensor(loss))
    else:
        finder.on_before_backward(None, about, torch.tensor(loss))
        about.method.projector.bias.data.fill_(math.nan)
        with pytest.raises(_Reached):
            finder.on_train_batch_end(None, about)
        assert finder.outcome["after"] == ["projector.bias"]
    assert finder.outcome["loss"] == kept


def test_the_first_gradient_that_is_not_finite_is_named_with_its_batch():
    finder, about = finding(3)
    for weight in about.method.encoder.parameters():
        weight.grad = torch.zeros_like(weight)
    finder.on_before_optimizer_step(None, about, None)
    assert finder.outcome["gradient"] is None
    about.method.encoder[0].bias.grad.fill_(math.nan)
    finder.on_before_optimizer_step(None, about, None)
    assert finder.outcome["gradient"] == {"batch": 2, "weights": ["encoder.0.bias"]}
    about.batches_done = 4
    finder.on_before_optimizer_step(None, about, None)
    assert finder.outcome["gradient"]["batch"] == 2
    scaled, _ = finding(3, scaled=True)
    scaled.on_before_optimizer_step(None, about, None)
    assert scaled.outcome["gradient"] is None, "of float16, where infinite ones are usual"


# ---- the whole


@pytest.fixture
def failed(make_run, tmp_path, tiny_data, monkeypatch):
    """A run whose batch 4 has failed, and a trainer that only notes what it is given."""
    folder = make_run(tmp_path / "run", seed=3, batch_size=32, precision="16-mixed", devices=2, nodes=2, compile=True)
    content = (tiny_data.images[:2], torch.arange(2), None)
    save_fault(
        RunFolder(folder),
        {"batch": 4, "epoch": 1, "seed": 3, "step": 2, "rank": 0, "loss": torch.tensor(math.nan), "content": content},
    )
    seen = SimpleNamespace(folder=folder, error=_Reached())

    def build_trainer(settings, *, callbacks, logger):
        (seen.finder,), seen.settings, seen.logger = callbacks, settings, logger
        seen.finder.outcome |= {"loss": 1.5, "batch_is_the_same": True}

        def fit(about, *, ckpt_path):
            seen.module, seen.checkpoint = about, ckpt_path
            if seen.error is not None:
                raise seen.error

        return SimpleNamespace(fit=fit)

    monkeypatch.setattr(running, "build_trainer", build_trainer)
    return seen


ADDRESS = {"batch": 4, "step": 2, "epoch": 1, "seed": 3, "from_batch": 0}


def test_a_replay_is_on_one_process_and_leaves_what_came_of_it(failed, tiny_data, capsys):
    outcome = replay(failed.folder, data=tiny_data)
    found = {"gradient": None, "module": None, "weights": [], "after": [], "loss": 1.5, "batch_is_the_same": True}
    assert outcome == ADDRESS | found
    assert json.loads((failed.folder / "replay.json").read_text()) == outcome
    engine = failed.settings.engine
    assert (engine.devices, engine.nodes, engine.strategy, engine.compile) == (1, 1, "auto", False)
    assert failed.settings.folder == failed.folder
    assert (failed.logger, failed.checkpoint, failed.finder.scaled_gradients) == (False, None, True)
    assert failed.finder.fault["samples"].tolist() == [0, 1]
    assert failed.module.data is tiny_data
    assert failed.module.views.size == 16
    assert capsys.readouterr().out.splitlines() == [
        "From batch 0 to batch 4, where the loss was nan ...",
        "The loss of batch 4 is 1.5.",
        "It did not happen again: the cause is not in the data or the weights.",
    ]


def test_a_quiet_replay_prints_nothing_and_embeddings_that_are_not_finite_are_a_loss(failed, tiny_data, capsys):
    failed.error = NotFiniteViews("nan")
    assert replay(failed.folder, data=tiny_data, quiet=True)["loss"] == "nan"
    assert capsys.readouterr().out == ""


def test_a_replay_that_never_comes_to_the_batch_says_so(failed, tiny_data):
    failed.error = None
    with pytest.raises(ValueError, match="ended before") as error:
        replay(failed.folder, data=tiny_data, quiet=True)
    assert str(error.value) == "the run ended before batch 4: its settings or data are not the same"


@pytest.mark.parametrize("done", [3, 4, 5])
def test_a_replay_starts_from_the_last_checkpoint_unless_it_is_from_later(failed, tiny_data, monkeypatch, done):
    last = RunFolder(failed.folder).checkpoint("last")
    last.parent.mkdir(exist_ok=True)
    last.touch()
    read = SimpleNamespace(load_checkpoint={last: {"batches_done": done}}.__getitem__)
    monkeypatch.setattr(module, "AtomicCheckpointIO", lambda: read)
    if done == 5:
        with pytest.raises(ValueError, match="from after") as error:
            replay(failed.folder, data=tiny_data, quiet=True)
        assert str(error.value) == f"{last} is from after the fault: the run has been resumed and has passed it"
    else:
        assert replay(failed.folder, data=tiny_data, quiet=True)["from_batch"] == done
        assert failed.checkpoint == last


@pytest.mark.parametrize("given", [True, False])
def test_the_encoder_of_a_replay_is_that_which_is_given(failed, tiny_data, given):
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(256, 8))
    encoder.feature_dim = 8
    replay(failed.folder, data=tiny_data, encoder=encoder if given else None, quiet=True)
    assert (failed.module.method.encoder is encoder) == given


OUTCOME = {"batch": 4, "loss": "nan", "batch_is_the_same": True, "gradient": None, "weights": [], "module": None}


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        ({"gradient": {"batch": 3, "weights": ["a"]}}, "It begins in the gradient of batch 3, in a."),
        ({"weights": ["a"]}, "The weights were not finite before it: a."),
        ({"module": "a"}, "It begins in the output of a; all weights and gradients before it are finite."),
        ({"after": ["a"], "loss": 1.5}, "Loss and gradients are finite, the weights after the step are not: a."),
        ({}, "Encoder and projector give finite embeddings: it begins in the loss."),
        ({"batch_is_the_same": False}, "Its images are not those that were saved: the data have changed since."),
    ],
)
def test_outcomes_are_told_in_these_words(outcome, sentence):
    assert explain({**OUTCOME, "after": [], **outcome})[1] == sentence


def test_of_many_names_three_are_told():
    assert _some(["a", "b", "c"]) == "a, b, c"
    assert _some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
