"""Centred kernel alignment is its definition, and knows no rotation or scale."""

import numpy as np
import torch

from kvicreg.measures.alignment import centred_alignment


def test_it_is_the_alignment_of_centred_gram_matrices():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 5)), rng.normal(size=(20, 7))
    centre = np.eye(20) - 1 / 20
    k, l = (centre @ a @ a.T @ centre for a in (x, y))
    expected = (k * l).sum() / np.sqrt((k * k).sum() * (l * l).sum())
    np.testing.assert_allclose(centred_alignment(torch.from_numpy(x), torch.from_numpy(y)), expected)


def test_rotation_and_scale_change_nothing_and_a_constant_has_none():
    x = torch.randn(30, 4, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64)).Q
    np.testing.assert_allclose(centred_alignment(x, 3 * x @ rotation + 1), 1)
    assert centred_alignment(x, torch.ones(30, 4)) == 0
