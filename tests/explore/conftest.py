"""A folder of small photographs, and what is made of it."""

import pytest
from photographs import write_photos

from kvicreg.explore import open_images


@pytest.fixture(scope="module")
def album(tmp_path_factory):
    """A folder with photos/, for all tests of a file, which may put more into it."""
    folder = tmp_path_factory.mktemp("explore")
    write_photos(folder / "photos")
    return folder


@pytest.fixture
def photos(tmp_path):
    return write_photos(tmp_path / "photos")


@pytest.fixture
def images(photos, tmp_path):
    return open_images("pixels", photos, cache=tmp_path / "cache")
