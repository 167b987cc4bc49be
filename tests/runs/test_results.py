"""results.json is plain JSON that anything can read, or says that it is not."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import pytest

from kvicreg.runs.results import MEASURES, read_results, write_results


class Interval(NamedTuple):
    low: float
    high: float


def test_results_are_plain_json(tmp_path):
    path = tmp_path / "results.json"
    values = {"format": 1, "subjects": {}, "data": {"name": "ü"}, 3: Interval(1 / 3, math.inf), "x": (1, [math.nan])}
    write_results(path, values)
    text = path.read_text()
    assert text.endswith("}\n")
    assert '"name": "ü"' in text
    read = read_results(path)
    assert read["3"] == {"low": 0.3333333333, "high": None}
    assert read["x"] == [1, [None]]
    for wrong, message in (
        ({"format": 2}, "has format 2, this version reads 1; evaluate the run again"),
        ({"format": 1}, "is damaged or not written by kvicreg"),
        ({"format": 1, "subjects": {}, "data": {}}, "is damaged or not written by kvicreg"),
        ([], "is damaged or not written by kvicreg"),
    ):
        path.write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=message):
            read_results(path)
    with pytest.raises(FileNotFoundError, match="has no none.json: evaluate it first"):
        read_results(tmp_path / "none.json")
    assert next(iter(MEASURES)) == "linear_probe"
