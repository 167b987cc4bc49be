"""The verdict says in words what the numbers say, and speaks of k-NN where that is where the difference is."""

from typing import Any

import pytest

from kvicreg.evaluation.verdict import verdict

NO = (0.002, 0.6)
"""A difference and its p-value."""


def results(**against: tuple[tuple[float, float], tuple[float, float]]) -> dict[str, Any]:
    def entry(difference: float, p_value: float) -> dict[str, float]:
        return {"difference": difference, "low": difference - 0.01, "high": difference + 0.01, "p_value": p_value}

    return {
        "data": {"name": "photos"},
        "diagnostics": {"verdict": "not collapsed"},
        "subjects": {"encoder": {"linear_probe": {"value": 0.6, "low": 0.58, "high": 0.62}}},
        "against": {
            name.replace("_", " "): {"linear_probe": entry(*probe), "knn": entry(*knn)}
            for name, (probe, knn) in against.items()
        },
    }


@pytest.mark.parametrize(
    ("probe", "knn", "words"),
    [
        ((0.051, 0.001), NO, ": 5.1 points above the same encoder untrained. The"),
        ((0.051, 0.001), (0.06, 0.001), ": 5.1 points above the same encoder untrained. The"),
        (
            (0.051, 0.001),
            (0.148, 0.001),
            ": 5.1 points above the same encoder untrained (k-NN: 14.8 points above). The",
        ),
        ((0.051, 0.001), (-0.03, 0.001), ": 5.1 points above the same encoder untrained (k-NN: 3.0 points below). The"),
        (NO, NO, ": no clear difference from the same encoder untrained (+0.2 points, p = 0.6). The"),
        (NO, (0.148, 0.001), "(+0.2 points, p = 0.6; k-NN: 14.8 points above). The"),
    ],
)
def test_k_nn_is_named_where_the_difference_is_there(probe, knn, words):
    assert words in verdict(results(random_encoder=(probe, knn)))


def test_controls_are_joined_in_a_sentence():
    sentence = verdict(results(raw_pixels=((0.1, 0.001), (0.1, 0.001)), random_encoder=((-0.02, 0.001), NO)))
    assert "10.0 points above raw pixels and 2.0 points below the same encoder untrained. The" in sentence


@pytest.mark.parametrize(
    ("probe", "knn", "words"),
    [
        ((0.031, 0.001), (0.05, 0.001), "The training helped: since the weights it started from, the linear probe has"),
        (NO, (0.05, 0.001), "The training helped: since"),
        ((-0.031, 0.001), NO, "The training did harm: since"),
        (NO, NO, "It is not clear that the training helped: since"),
        ((0.031, 0.001), (-0.05, 0.001), "The training helped by one measure and did harm by the other: since"),
    ],
)
def test_whether_training_helped_is_said_with_its_interval(probe, knn, words):
    sentence = verdict(results(starting_encoder=(probe, knn)))
    assert words in sentence
    points = [f"{100 * d:+.1f} points ({100 * (d - 0.01):+.1f} to {100 * (d + 0.01):+.1f})" for d, _ in (probe, knn)]
    assert f"moved by {points[0]} and k-NN by {points[1]}. The features" in sentence
