"""Random numbers by address: pure functions of (seed, epoch, sample, view, parameter), without state.

    u(seed, epoch, sample, view, j) = top 24 bits of  mix(mix(key + sample * G) + (j + 1) * G)  / 2^24

with key = mix(mix(mix(seed) + epoch) + view), G an odd constant and `mix` a bijection of 64-bit words
(xor-shifts and odd multiplications). All of it is integer arithmetic that wraps around, so any device, any
batch and any number of processes see the same number at the same address. Not for cryptography.
"""

from __future__ import annotations

import torch
from torch import Tensor

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd: successive multiples are spread evenly
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of the finaliser of SplitMix64
_SHIFTS = (30, 27, 31)


def _signed(word: int) -> int:
    """The two's complement int64 that has the bits of `word`, for torch."""
    word &= _WORD
    return word - (1 << 64) if word >> 63 else word


def _mix_word(word: int) -> int:
    for shift, multiplier in zip(_SHIFTS, (*_MULTIPLIERS, 1), strict=True):
        word = ((word ^ (word >> shift)) * multiplier) & _WORD
    return word


def _mix(words: Tensor) -> Tensor:
    """`_mix_word` of every int64 word, in place; int64 shifts right with its sign, so the sign is masked off."""
    for shift, multiplier in zip(_SHIFTS, (*_MULTIPLIERS, 1), strict=True):
        words ^= (words >> shift) & ((1 << (64 - shift)) - 1)
        if multiplier != 1:
            words *= _signed(multiplier)
    return words


def key(*parts: int) -> int:
    """One 64-bit word out of whole numbers; their order matters."""
    word = 0
    for part in parts:
        word = _mix_word(word + part + _GOLDEN)
    return word


def hashes(indices: Tensor, *parts: int) -> Tensor:
    """A 64-bit word for each of the `indices` (int64, any shape) at the address `parts`; no two are equal."""
    return _mix(indices * _signed(_GOLDEN) + _signed(key(*parts)))


def uniform(samples: Tensor, count: int, *, seed: int, epoch: int, view: int = 0) -> Tensor:
    """`count` numbers in [0, 1) for each sample, float32 of shape (b, count), on the device of `samples` (b,).

    Example:
        >>> uniform(torch.tensor([7, 8]), 3, seed=0, epoch=0).shape
        torch.Size([2, 3])
    """
    steps = torch.arange(1, count + 1, device=samples.device) * _signed(_GOLDEN)
    words = _mix(hashes(samples.long(), seed, epoch, view)[:, None] + steps)
    return ((words >> 40) & 0xFFFFFF).float() * 2.0**-24


def permutation(n: int, *, seed: int, epoch: int) -> Tensor:
    """The order of `n` samples in an epoch: int64 (n,). Hashes of distinct samples never tie, so any sort agrees.

    Example:
        >>> sorted(permutation(5, seed=0, epoch=3).tolist())
        [0, 1, 2, 3, 4]
    """
    return torch.argsort(hashes(torch.arange(n), seed, epoch, -1))
