"""What the tests of run folders share."""

import pytest

from kvicreg.runs import RunFolder, Settings


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.write_settings(Settings.of(epochs=3))
    return folder
