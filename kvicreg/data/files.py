"""`FileData`: images decoded as they are needed, in worker processes, with bad files replaced."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from kvicreg.data.addresses import hashes
from kvicreg.data.cache import DecodedImages
from kvicreg.data.images import ImageData, Names, PathList
from kvicreg.data.intensity import Intensity, intensity_rule, measure_intensity
from kvicreg.data.pixels import MAX_CHANNELS, Content, Fit, check_channels, decode_deep, raw_pixels, read_header
from kvicreg.data.stores import SourceError
from kvicreg.data.survey import Reader, Survey, survey
from kvicreg.storage import message_of

__all__ = ["FileData", "Pages"]

Pages = Literal["first", "channels", "images"]
_TRIES = 64  # replacements tried for a bad file; if fewer than half of all files are bad, all fail once in 2^64
_MEASURED = 128  # images whose values are looked at for their range


class FileData(ImageData):
    """Images in files. A file that can't be read is replaced by another sample, chosen by its address.

    Args:
        paths: the name of each sample's file.
        labels: int64 (n,), or None.
        size: side of the decoded square; by default the median shorter side, at most 224.
        channels: 1 to 32; by default 3 for images of 8 bits in grey or colour, else as many as most images have.
        read: from a name to its file or its content, in any process; by default the name is a file's path.
        pages: of a TIFF with several: the first, all as channels, or each as an image.
        intensity: range of values for images of more than 8 bits, or the rule by which it is measured.
        fit: how an image becomes a square: its centre, all of it between black bars, or all of it stretched.
        notes: what is to be told of the source.

    Example:
        >>> from PIL import Image
        >>> Image.new("RGB", (40, 32)).save("black.png")
        >>> FileData([Path("black.png")], name="photographs")
        FileData('photographs', 'train': 1 image 3x32x32, unlabelled)
    """

    paths: Names

    def __init__(
        self,
        paths: Sequence[Path],
        labels: Tensor | None = None,
        *,
        name: str = "files",
        split: str = "train",
        class_names: list[str] | None = None,
        size: int | None = None,
        channels: int | None = None,
        read: Reader | None = None,
        pages: Pages = "first",
        intensity: str | Intensity = "minmax",
        fit: Fit = "crop",
        notes: Sequence[str] = (),
    ) -> None:
        if not paths:
            raise ValueError(f"{name}: there is no image in it")
        if channels is not None:
            check_channels(channels)
        self.paths = paths if isinstance(paths, Names) else PathList(paths)
        self.labels, self.class_names = labels, class_names
        self.name, self.split, self.read, self.pages, self.fit = name, split, read, pages, fit
        self.notes = tuple(notes)
        self._bad: dict[int, str] = {}
        self._decoded: DecodedImages | None = None
        self._for_views: FileData | None = None
        looks = survey(self.paths, read)
        if pages == "images":
            self._split_pages()
        if channels is None:
            channels = self._channels(looks)
        size = min(224, looks.size if looks else 224) if size is None else size
        self.stored_size = looks.size if looks else size
        self.stored_in_grey = looks is not None and looks.channels == 1 and pages != "channels"
        self.shape = (channels, size, size)
        if looks is not None:
            self.intensity = self._measured(intensity, looks)
            is_measured = isinstance(intensity, str) and ":" not in intensity
            self.notes += tuple(looks.notes(pages, self.intensity, is_measured))

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def unreadable(self) -> list[Path]:
        return [self.paths[i] for i in sorted(self._bad)]

    @property
    def faults(self) -> dict[Path, str]:
        """Why each of the unreadable files can't be used."""
        return {self.paths[i]: self._bad[i] for i in sorted(self._bad)}

    def fetch(self, indices: Tensor) -> Tensor:
        return next(self.stream([indices]))[0]

    def stream(self, chunks: Sequence[Tensor], workers: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        cache = self._decoded
        if cache is None:
            yield from self._read(chunks, workers)
            return
        missing = [~cache.has(indices) for indices in chunks]
        parts = [indices[rows] for indices, rows in zip(chunks, missing, strict=True) if bool(rows.any())]
        decoded = self._read(parts, workers)
        for indices, rows in zip(chunks, missing, strict=True):
            images = torch.empty(len(indices), *self.shape, dtype=cache.dtype)
            shown, present = indices.clone(), indices[~rows]
            if len(present):
                images[~rows] = cache.take(present)
            if len(present) < len(indices):
                images[rows], shown[rows] = next(decoded)
                readable = rows & (shown == indices)
                cache.put(indices[readable], images[readable])
            yield images, shown

    def for_views(self) -> FileData:
        if self._for_views is None:
            large = copy.copy(self)
            size = max(self.shape[1], min(self.stored_size, round(self.oversize * self.shape[1])))
            large.shape = (self.shape[0], size, size)
            self._for_views = large.cached()
        return self._for_views

    def cached(self) -> FileData:
        data = copy.copy(self)
        data._decoded = DecodedImages(len(self), self.shape, self._dtype, self.cache_limit, self.cache_folder)
        return data

    @property
    def cache_bytes(self) -> int:
        cache = self.for_views()._decoded
        return 0 if cache is None else cache.nbytes

    def subset(self, indices: Tensor | Sequence[int]) -> FileData:
        indices = torch.as_tensor(indices)
        part = copy.copy(self)
        part.paths = self.paths.select(indices.tolist())
        part.labels = self.labels_of(indices)
        part._bad, part._decoded, part._for_views = {}, None, None
        if not part.paths:
            raise ValueError(f"{self.name}: there is no image in it")
        return part

    @property
    def _dtype(self) -> torch.dtype:
        return torch.uint8 if self.intensity is None else torch.float32

    def _read(self, chunks: Sequence[Tensor], workers: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Images and samples of each chunk, decoded here or by worker processes."""
        if workers == 0 or not chunks:
            for indices in chunks:
                yield self._checked(*self._decode(indices))
            return
        from torch.utils.data import DataLoader

        loader = DataLoader(
            _Chunks(self, chunks),
            batch_size=None,
            num_workers=workers,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # the loader draws a number: not from the state that training resumes
        )
        for decoded in loader:
            if isinstance(decoded, Exception):
                raise decoded
            yield self._checked(*decoded)

    def _decode(self, indices: Tensor) -> Decoded:
        """Images, the samples they show, and the samples that were bad on the way. Runs in worker processes as well."""
        images = torch.empty(len(indices), *self.shape, dtype=self._dtype)
        shown, bad = indices.clone(), {}
        for row in indices.argsort().tolist():  # near ones together: a reader may have to unpack some at once
            first = index = int(indices[row])
            for attempt in range(_TRIES):
                try:
                    images[row] = self._image(self.paths[index])
                    shown[row] = index
                    break
                except (ImportError, SourceError):
                    raise
                except Exception as error:  # Pillow raises whatever the damage makes it stumble over
                    bad[index] = message_of(error)
                    index = int(hashes(torch.tensor(first), attempt)) % len(self)
            else:
                shown[row] = -1
        return images, shown, bad

    def _located(self, path: Path) -> tuple[Content, int | None]:
        """The file of an image, or its content, and the page in it; None for all pages."""
        page: int | None = None if self.pages == "channels" and is_tiff(path) else 0
        if self.pages == "images" and is_tiff(path.parent):
            path, page = path.parent, int(path.name)
        return path if self.read is None else self.read(path), page

    def _image(self, path: Path) -> Tensor:
        content, page = self._located(path)
        return decode_deep(content, self.shape[0], self.shape[2], self.intensity, page, self.fit)

    def _checked(self, images: Tensor, shown: Tensor, bad: dict[int, str]) -> tuple[Tensor, Tensor]:
        self._bad.update(bad)
        if 2 * len(self._bad) > len(self) or bool((shown < 0).any()):
            some = ", ".join(f"{path} ({reason})" for path, reason in list(self.faults.items())[:3])
            raise ValueError(
                f"{self.name}: most of its {len(self):,} images can't be read ({len(self._bad):,} so far), "
                f"such as {some}"
            )
        return images, shown

    def _channels(self, looks: Survey | None) -> int:
        """Three for ordinary pictures; as many as they have for others."""
        if looks is None:
            return 3
        if self.pages == "channels":
            return max(1, min(MAX_CHANNELS, looks.most_pages * looks.channels))
        return looks.channels if looks.channels not in (1, 3) or 2 * looks.deep > looks.looked_at else 3

    def _measured(self, rule: str | Intensity, looks: Survey) -> Intensity | None:
        """The range of the images of more than 8 bits, or None if there is none."""
        if looks.deep == 0:
            return None
        fixed = rule if isinstance(rule, Intensity) else intensity_rule(rule)
        if isinstance(fixed, Intensity):
            return fixed
        return measure_intensity(self._deep_values(), fixed)

    def _deep_values(self) -> Iterator[np.ndarray]:
        """Raw values (h, w, k) of some images of more than 8 bits."""
        for path in self.paths[:: max(1, len(self) // _MEASURED)]:
            try:
                values = raw_pixels(*self._located(path), keep_alpha=self.shape[0] == 4)
            except Exception:  # a bad file is met again, and told, when it is decoded
                continue
            if values.dtype != np.uint8:
                yield values

    def _split_pages(self) -> None:
        """Give every page of every TIFF a name of its own: that of the file, and behind it the page's number."""
        names, counts = [], []
        for path in self.paths:
            text = str(path)
            pages = self._count_pages(path) if is_tiff(path) else 0
            names += [os.path.join(text, str(page)) for page in range(pages)] if pages else [text]
            counts.append(max(1, pages))
        self.paths = PathList(names)
        if self.labels is not None:
            self.labels = self.labels.repeat_interleave(torch.tensor(counts))

    def _count_pages(self, path: Path) -> int:
        try:
            return read_header(path if self.read is None else self.read(path)).pages
        except (ImportError, SourceError):
            raise
        except Exception:  # told when it is decoded
            return 1


def is_tiff(path: Path) -> bool:
    """Whether a file is called as a TIFF is."""
    return path.suffix.lower() in (".tif", ".tiff")


Decoded = tuple[Tensor, Tensor, dict[int, str]]


class _Chunks(torch.utils.data.Dataset[Decoded | Exception]):
    """Chunks of samples as the items of a torch data set: a worker decodes a whole batch at a time."""

    def __init__(self, data: FileData, chunks: Sequence[Tensor]) -> None:
        self.data, self.chunks = data, chunks

    def __len__(self) -> int:
        return len(self.chunks)

    def __getitem__(self, k: int) -> Decoded | Exception:
        try:
            return self.data._decode(self.chunks[k])
        except (ImportError, SourceError) as error:  # raised in the main process, where it is a sentence
            return error
