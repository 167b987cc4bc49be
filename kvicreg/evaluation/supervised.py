"""Training the encoder with labels: fine-tuning from the learnt weights, or the supervised control from scratch."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from kvicreg.data import ImageData, Views, batches, count_batches
from kvicreg.evaluation.probes import ProbeResult
from kvicreg.measures.features import extract
from kvicreg.models import PretrainedEncoder

FINE_TUNING_EPOCHS = 10


def train_with_labels(
    encoder: PretrainedEncoder,
    data: ImageData,
    views: Views,
    *,
    epochs: int,
    learning_rate: float = 1e-3,
    batch_size: int = 256,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[PretrainedEncoder, nn.Linear]:
    """A copy of the encoder trained end to end by cross-entropy with a linear head (AdamW, cosine schedule).

    The views are those of pretraining, one per image and epoch; order and views are addressed by the seed.
    """
    if data.labels is None:
        raise ValueError(f"{data.name} ({data.split}) has no labels to train with")
    batch_size = min(batch_size, max(16, len(data) // 20), len(data))  # small data: at least 20 steps per epoch
    device = next(encoder.parameters()).device
    model = copy.deepcopy(encoder).train()
    head = nn.Linear(model.feature_dim, int(data.labels.max()) + 1).to(device)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, total_steps=epochs * count_batches(len(data), batch_size), pct_start=0.1
    )
    for epoch in range(epochs):
        for images, samples, labels in batches(data, batch_size, seed=seed, epoch=epoch):
            assert labels is not None
            x = views(images.to(device, non_blocking=True), samples, seed=seed, epoch=epoch, view=0)
            loss = nn.functional.cross_entropy(head(model(x)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if progress is not None:
            progress(epoch + 1, epochs)
    return model.eval(), head


def fine_tuning(
    encoder: PretrainedEncoder,
    train: ImageData,
    test: ImageData,
    views: Views,
    *,
    epochs: int = FINE_TUNING_EPOCHS,
    learning_rate: float = 3e-4,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ProbeResult:
    """Accuracy on test images after training the whole encoder with the labels of `train`."""
    if test.labels is None:
        raise ValueError(f"{test.name} ({test.split}) has no labels to measure with")
    model, head = train_with_labels(
        encoder, train, views, epochs=epochs, learning_rate=learning_rate, seed=seed, progress=progress
    )
    with torch.no_grad():
        predictions = head.cpu()(extract(model, test)).argmax(1)
    return ProbeResult.of(predictions, test.labels, epochs=epochs, learning_rate=learning_rate, seed=seed)
