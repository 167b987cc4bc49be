"""A folder of small photographs, and what is made of it."""

import pytest
from photographs import write_photos

from kvicreg.explore import open_images


@pytest.fixture
def photos(tmp_path):
    return write_photos(tmp_path / "photos")


@pytest.fixture
def images(photos, tmp_path):
    return open_images("pixels", photos, cache=tmp_path / "cache")
