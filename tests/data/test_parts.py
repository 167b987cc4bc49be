"""Parts of a training set: disjoint, the same every time, nested."""

import pytest
import torch

from kvicreg.data import ArrayData, first_images, hold_out


def numbered(n: int = 100) -> ArrayData:
    """Images whose pixels and labels tell which they are."""
    numbers = torch.arange(n)
    return ArrayData(numbers.to(torch.uint8).view(n, 1, 1, 1).expand(n, 1, 2, 2), labels=numbers)


def labels(data) -> set[int]:
    return set(data.labels.tolist())


def test_held_out_images_are_not_trained_on_and_none_is_lost():
    rest, held = hold_out(numbered(), 30)
    assert len(held) == 30
    assert labels(rest) | labels(held) == set(range(100))
    assert not labels(rest) & labels(held)


def test_parts_are_the_same_every_time_and_not_the_first_images():
    assert labels(hold_out(numbered(), 30)[1]) == labels(hold_out(numbered(), 30)[1]) != set(range(30))


def test_smaller_sets_are_parts_of_larger_ones():
    data = numbered()
    assert labels(first_images(data, 10)) < labels(first_images(data, 50)) < labels(first_images(data, 100))


def test_no_holdout_leaves_the_data_as_they_are():
    data = numbered()
    assert hold_out(data, 0) == (data, None)


@pytest.mark.parametrize("count", [-1, 100])
def test_a_holdout_that_leaves_nothing_is_refused(count):
    with pytest.raises(ValueError, match="holdout: expected 0 to 99"):
        hold_out(numbered(), count)


@pytest.mark.parametrize("count", [0, 101])
def test_more_images_than_there_are_is_refused(count):
    with pytest.raises(ValueError, match="images: expected 1 to 100"):
        first_images(numbered(), count)
