"""The zoo's cards tell what its files reach on the images they are of."""

import pytest

from experiments.common import Job
from experiments.common.cells import accuracies
from experiments.zoo import MODELS, Zoo
from kvicreg import load_encoder


@pytest.mark.parametrize("data", MODELS)
def test_the_numbers_of_a_card_come_out_again(data):
    told = []
    job = Job(seeds=(0,), say=told.append)
    if not job.has(data):
        pytest.skip(f"needs the whole of {data}: {told[0]}")
    (cell,) = Zoo(data=(data,)).cells(job)
    encoder = load_encoder(f"zoo:{data}")
    measured, card = accuracies(encoder, cell), encoder.description["results"]
    assert {name: measured[name] for name in ("probe", "probe_few", "knn")} == pytest.approx(
        {name: card[name] for name in ("probe", "probe_few", "knn")}, abs=0.003
    )
