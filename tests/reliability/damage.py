"""Ways to damage right files: their bytes, values in their JSON, and arrays in their archives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np


def spoil(chance: random.Random, content: bytes) -> bytes:
    """Bytes with a few of them changed, cut, doubled, moved or replaced."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        way = chance.randrange(8)
        at = chance.randrange(len(data) + 1)
        upto = min(len(data), at + chance.choice((1, 2, 4, 16, 200)))
        if way == 0:
            del data[at:]
        elif way == 1:
            del data[at:upto]
        elif way == 2:
            data[at:upto] = chance.randbytes(upto - at)
        elif way == 3:
            data[at:at] = chance.randbytes(chance.choice((1, 4, 100)))
        elif way == 4:
            data[at:upto] = b"\xff" * (upto - at)
        elif way == 5:
            data[at:upto] = bytes(upto - at)
        elif way == 6 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif way == 7:
            data[at:at] = data[: chance.choice((3, 50))]
    return bytes(data) if chance.random() > 0.02 else b""


def spoil_json(chance: random.Random, value: Any) -> Any:
    """A value somewhere in the tree is replaced by another kind of value."""
    other = chance.choice((None, -1, 0, 1e308, "x", [], {}, [[]], True, "<script>", 10**30))
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        if chance.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return value | {key: spoil_json(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.7:
        at = chance.randrange(len(value))
        return [*value[:at], spoil_json(chance, value[at]), *value[at + 1 :]]
    return other


def spoil_npz(chance: random.Random, path: Path) -> None:
    """Arrays of other shapes and types, missing or too many, or with a pickle inside."""
    with np.load(path, allow_pickle=False) as content:
        arrays: dict[str, Any] = {key: content[key] for key in content.files}
    key = chance.choice(sorted(arrays))
    value = np.atleast_1d(arrays.pop(key))
    others = [
        None,
        value[:0],
        value.astype("U8"),
        np.full(3, np.nan),
        np.array({"a": 1}, dtype=object),
        np.zeros((2, 2, 2)),
        value.reshape(-1)[:1] if value.size else value,
    ]
    other = chance.choice(others)
    if other is not None:
        arrays[key] = other
    np.savez(path, allow_pickle=True, **arrays)
