"""What counts as a step of training, in which smoothed bandwidths move."""

import pytest
import torch

from kvicreg.operators import bandwidth


@pytest.mark.parametrize(
    ("concrete", "compiling", "expected"), [(True, False, True), (False, False, False), (False, True, True)]
)
def test_a_step_of_training_may_be_in_torch_compile_but_not_in_torch_func(monkeypatch, concrete, compiling, expected):
    monkeypatch.setattr(bandwidth, "is_concrete", lambda: concrete)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    module = torch.nn.Linear(2, 2)
    assert bandwidth.is_training_step(module) == expected
    assert not bandwidth.is_training_step(module.eval())
    with torch.no_grad():
        assert not bandwidth.is_training_step(module.train())
