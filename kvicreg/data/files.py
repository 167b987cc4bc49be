"""`FileData`: images decoded from files as they are needed, in worker processes, with bad files replaced."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from kvicreg.data.addresses import hashes
from kvicreg.data.images import ImageData, PathList

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MAX_PIXELS = 1 << 26  # 8192 x 8192, 200 MB decoded: a file of a few bytes can claim any size
_TRIES = 64  # replacements tried for a bad file; if fewer than half of all files are bad, all fail once in 2^64


def open_image(path: Path) -> Image.Image:
    """An image file with its header read. Only regular files, only the formats a folder is searched for.

    A pipe would be waited for; and Pillow would hand what looks like PostScript to another program.
    """
    from PIL import Image

    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # we have a limit of our own
        return Image.open(path, formats=FORMATS)


def decode(path: Path, channels: int, size: int) -> Tensor:
    """A file as uint8 (channels, size, size): turned upright (EXIF), the centre square, resized with antialiasing.

    Raises whatever Pillow does for a file that is missing, damaged or no image.
    """
    from PIL import Image, ImageOps

    with open_image(path) as opened:
        opened.draft("RGB", (2 * size, 2 * size))  # JPEG: decode at a fraction of the size where that is enough
        if opened.width * opened.height > MAX_PIXELS:
            raise ValueError(f"{path} has {opened.width}x{opened.height} pixels, more than {MAX_PIXELS:,}")
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I"):  # 16 bits: keep the high byte
            image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8))
        image = image.convert("L" if channels == 1 else "RGB")
        image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
        array = np.asarray(image)
    return torch.from_numpy(array.reshape(size, size, channels).transpose(2, 0, 1).copy())


def common_size(paths: Sequence[Path], largest: int = 224) -> int:
    """The median shorter side of up to 64 evenly spaced files, and at most `largest`."""
    sides = []
    for path in paths[:: max(1, len(paths) // 64)]:
        try:
            with open_image(path) as image:
                sides.append(min(image.size))
        except Exception:  # a bad file is met again, and told, when it is decoded
            continue
    return min(largest, sorted(sides)[len(sides) // 2]) if sides else largest


class FileData(ImageData):
    """Images in files. A file that can't be read is replaced by another sample, chosen by its address.

    Args:
        paths: one file per sample.
        labels: int64 (n,), or None.
        size: side of the decoded square; by default the median shorter side, at most 224.
        channels: 3, or 1 for luma.

    Example:
        >>> from PIL import Image
        >>> Image.new("RGB", (40, 32)).save("black.png")
        >>> FileData([Path("black.png")], name="photographs")
        FileData('photographs', 'train': 1 images 3x32x32, unlabelled)
    """

    paths: PathList

    def __init__(
        self,
        paths: Sequence[Path],
        labels: Tensor | None = None,
        *,
        name: str = "files",
        split: str = "train",
        class_names: list[str] | None = None,
        size: int | None = None,
        channels: int = 3,
    ) -> None:
        if not paths:
            raise ValueError(f"{name}: there is no image in it")
        if channels not in (1, 3):
            raise ValueError(f"channels: expected 1 or 3, got {channels}")
        self.paths, self.labels, self.class_names = PathList(paths), labels, class_names
        self.name, self.split = name, split
        size = common_size(self.paths) if size is None else size
        self.shape = (channels, size, size)
        self._bad: set[int] = set()

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def unreadable(self) -> list[Path]:
        return [self.paths[i] for i in sorted(self._bad)]

    def fetch(self, indices: Tensor) -> Tensor:
        return self._checked(*self._decode(indices))[0]

    def stream(self, chunks: Sequence[Tensor], workers: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        if workers == 0:
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
            yield self._checked(*decoded)

    def subset(self, indices: Tensor | Sequence[int]) -> FileData:
        indices = torch.as_tensor(indices)
        return FileData(
            PathList(self.paths.texts[i] for i in indices.tolist()),
            self.labels_of(indices),
            name=self.name,
            split=self.split,
            class_names=self.class_names,
            size=self.shape[2],
            channels=self.shape[0],
        )

    def _decode(self, indices: Tensor) -> tuple[Tensor, Tensor, list[int]]:
        """Images, the samples they show, and the samples found bad on the way. Runs in worker processes as well."""
        channels, size, _ = self.shape
        images = torch.empty(len(indices), channels, size, size, dtype=torch.uint8)
        shown, bad = indices.clone(), []
        for row, first in enumerate(indices.tolist()):
            index = first
            for attempt in range(_TRIES):
                try:
                    images[row] = decode(self.paths[index], channels, size)
                    shown[row] = index
                    break
                except Exception:  # Pillow raises whatever the damage makes it stumble over
                    bad.append(index)
                    index = int(hashes(torch.tensor(first), attempt)) % len(self)
            else:
                shown[row] = -1
        return images, shown, bad

    def _checked(self, images: Tensor, shown: Tensor, bad: list[int]) -> tuple[Tensor, Tensor]:
        self._bad.update(bad)
        if 2 * len(self._bad) > len(self) or bool((shown < 0).any()):
            some = ", ".join(str(path) for path in self.unreadable[:3])
            raise ValueError(
                f"{self.name}: most of its {len(self):,} images can't be read ({len(self._bad):,} so far), "
                f"such as {some}"
            )
        return images, shown


class _Chunks(torch.utils.data.Dataset[tuple[Tensor, Tensor, list[int]]]):
    """Chunks of samples as the items of a torch data set: a worker decodes a whole batch at a time."""

    def __init__(self, data: FileData, chunks: Sequence[Tensor]) -> None:
        self.data, self.chunks = data, chunks

    def __len__(self) -> int:
        return len(self.chunks)

    def __getitem__(self, k: int) -> tuple[Tensor, Tensor, list[int]]:
        return self.data._decode(self.chunks[k])
