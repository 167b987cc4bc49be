"""`Collection`: the images of a source, embedded, to be searched by image and by example."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from kvicreg.data import DATA_SETS, ImageData, data_root, load
from kvicreg.data.pixels import Content, decode
from kvicreg.data.transforms import visible
from kvicreg.evaluation.embed import images_for
from kvicreg.explore import space
from kvicreg.explore.embedding import Embedding, Progress, embed_images, source_key
from kvicreg.explore.encoders import open_encoder, weights_key
from kvicreg.explore.index import Index, exact_search
from kvicreg.explore.space import Space
from kvicreg.measures.features import evaluating
from kvicreg.models import PretrainedEncoder
from kvicreg.storage import message_of, read_arrays, replacing

__all__ = ["NEIGHBOURS", "Collection", "Match", "check_examples", "open_images", "read_image"]

NEIGHBOURS = 15
"""How many neighbours of every image are looked up for duplicates, outliers and the map."""
NEGATIVE_WEIGHT = 0.5


@dataclass(frozen=True)
class Match:
    """An image that a search gives, and its cosine with what was searched for."""

    index: int
    name: str
    similarity: float


class Collection:
    """Embedded images. Similarity is the cosine in a `Space` that is fitted to them.

    Attributes:
        data: the images as the encoder sees them.
        shown: the same as people see them, in their own size.
        unit: the features in that space, (n, q); zero where an image can't be read.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> len(images), images.names[3], len(images.search(positive=[3], negative=[5]))
        (100, '3', 10)
    """

    def __init__(
        self,
        encoder: PretrainedEncoder,
        data: ImageData,
        files: Embedding,
        *,
        shown: ImageData | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.encoder, self.data, self.files, self.progress = encoder, data, files, progress
        self.shown = data if shown is None else shown
        self.readable = torch.from_numpy(np.array(files.readable)).bool()
        features = files.in_memory()
        self.space = Space(features[self.readable])
        self.unit = self.space(features) * self.readable[:, None]

    def __len__(self) -> int:
        return len(self.data)

    @cached_property
    def folder(self) -> Path:
        """Where what is computed once in the space is stored; features, which need none, lie above it."""
        folder = self.files.folder / f"space-{space.VERSION}"
        folder.mkdir(exist_ok=True)
        return folder

    @cached_property
    def names(self) -> list[str]:
        """What each image is called: its path below the folder that all share, or its number."""
        if self.data.paths is None:
            return [str(index) for index in range(len(self))]
        paths = [os.fspath(path) for path in self.data.paths]
        shared = os.path.commonpath(paths) if len(paths) > 1 else os.path.dirname(paths[0])
        return [os.path.relpath(path, shared) for path in paths]

    def report(self, what: str, done: int, total: int) -> None:
        """Tell how far a part of the work is."""
        if self.progress is not None:
            self.progress(what, done, total)

    @cached_property
    def index(self) -> Index:
        return Index(self.unit, self.folder, progress=lambda done, total: self.report("index", done, total))

    @cached_property
    def neighbours(self) -> tuple[Tensor, Tensor]:
        """Indices and cosines (n, k) of the nearest other images of every image, computed once and stored."""
        return self._stored_neighbours("neighbours", lambda: self.unit)

    @cached_property
    def mirrored_neighbours(self) -> tuple[Tensor, Tensor]:
        """The same for the mirror image of every image, which is embedded for this once."""
        return self._stored_neighbours("mirrored", self._mirrored)

    def _mirrored(self) -> Tensor:
        return self.space(self.mirrored.in_memory()) * self.readable[:, None]

    @cached_property
    def mirrored(self) -> Embedding:
        """The mirror images, embedded once."""
        folder = self.files.folder / "mirrored"
        return embed_images(self.encoder, self.data, folder, mirror=True, progress=self.progress)

    @cached_property
    def sharp(self) -> Space:
        """The space in which copies are told from images that are merely alike."""
        return Space(self.files.in_memory()[self.readable], power=1.0)

    def _stored_neighbours(self, name: str, queries: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
        path = self.folder / f"{name}.npz"
        if path.is_file():
            try:
                arrays = read_arrays(path)
                return torch.from_numpy(arrays["indices"]).long(), torch.from_numpy(arrays["cosines"])
            except (ValueError, KeyError):
                path.unlink()  # damaged from outside
        indices, cosines = self._search_all(name, queries(), min(NEIGHBOURS, len(self) - 1))
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, indices=indices.int().numpy(), cosines=cosines.numpy())
        return indices, cosines

    def _search_all(self, what: str, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        parts = []
        for rows in torch.arange(len(self)).split(1024):
            indices, cosines = self.index.search(queries[rows], count + 1)
            itself = indices == rows[:, None]
            itself[~itself.any(1), -1] = True  # a copy took its place: the last of the row goes instead
            shape = (len(rows), count)
            parts.append((indices[~itself].view(shape), cosines[~itself].view(shape)))
            self.report(what, int(rows[-1]) + 1, len(self))
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def embed(self, image: Content | str) -> Tensor:
        """The unit feature (q,) of an image from elsewhere: its path, or the bytes of its file."""
        pixels = read_image(image, self.data)
        with evaluating(self.encoder):
            features = self.encoder(self.encoder.preprocess(pixels[None])).flatten(1).float().cpu()
        return self.space(features)[0]

    def query(self, positive: Sequence[int] = (), negative: Sequence[int] = (), image: Tensor | None = None) -> Tensor:
        """A direction (q,): towards an image and positive examples, and half as much away from negative ones."""
        check_examples(len(self), positive, negative, has_image=image is not None)
        towards = [self.unit[list(positive)]] if positive else []
        towards += [] if image is None else [image[None]]
        direction = torch.cat(towards).mean(0)
        if negative:
            direction = direction - NEGATIVE_WEIGHT * self.unit[list(negative)].mean(0)
        return normalize(direction, dim=0)

    def search(
        self,
        image: Content | str | None = None,
        *,
        positive: Sequence[int] = (),
        negative: Sequence[int] = (),
        count: int = 10,
    ) -> list[Match]:
        """The images most like an image from elsewhere, or like some of the collection and unlike others of it.

        Examples are left out of what is given.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}")
        direction = self.query(positive, negative, None if image is None else self.embed(image))
        examples = {*positive, *negative}
        return self.matches(*self.index.search(direction[None], count + len(examples)), examples)[:count]

    def matches(self, indices: Tensor, cosines: Tensor, leave_out: set[int]) -> list[Match]:
        """What a search gave, (1, k), without some images and those that can't be read."""
        pairs = zip(indices[0].tolist(), cosines[0].tolist(), strict=True)
        return [Match(i, self.names[i], c) for i, c in pairs if i not in leave_out and self.readable[i]]

    @cached_property
    def pixel_rows(self) -> Tensor:
        """Small images, centred and of unit length, (n, 768): what the encoder is compared with."""
        pixels = torch.from_numpy(np.array(self.files.pixels)).flatten(1).float()
        return normalize(pixels - pixels.mean(0), dim=1) * self.readable[:, None]

    def pixel_neighbours(self, index: int, count: int = 10) -> list[Match]:
        """The images most like one of the collection by their pixels."""
        return self.matches(*exact_search(self.pixel_rows, self.pixel_rows[index][None], count + 1), {index})[:count]

    def picture(self, index: int, side: int = 64, form: str = "WEBP") -> bytes:
        """An image of the collection as a file, at most `side` pixels wide; a grey one where it can't be read."""
        from PIL import Image

        pixels = visible(self.shown.fetch(torch.tensor([index])))[0]
        if not self.readable[index]:
            pixels = torch.full_like(pixels, 128)
        array = pixels.permute(1, 2, 0).numpy()
        image = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
        image.thumbnail((side, side), Image.Resampling.BILINEAR)
        file = BytesIO()
        image.save(file, form, quality=85)
        return file.getvalue()


def read_image(image: Content | str, like: ImageData) -> Tensor:
    """The pixels (c, s, s) of an image from elsewhere, its path or the bytes of its file, as those of a source are."""
    content = Path(image) if isinstance(image, str) else image
    try:
        return decode(content, like.shape[0], like.shape[1], like.intensity, like.fit)
    except (ImportError, FileNotFoundError):
        raise
    except Exception as error:  # Pillow raises whatever the damage makes it stumble over
        raise ValueError(f"image: it can't be read ({message_of(error)})") from error


def check_examples(count: int, positive: Sequence[int], negative: Sequence[int], *, has_image: bool) -> None:
    """Refuse a search for nothing, or by examples that are none of `count` images."""
    for name, examples in (("positive", positive), ("negative", negative)):
        for example in examples:
            if not 0 <= example < count:
                raise ValueError(f"{name}: expected numbers of images from 0 to {count - 1}, got {example}")
    if not (positive or has_image):
        raise ValueError("expected an image or at least one positive example, got none")


def open_images(
    encoder: str | Path | PretrainedEncoder,
    source: str | Path | ImageData,
    *,
    split: str = "train",
    root: str | Path | None = None,
    cache: str | Path | None = None,
    batch_size: int = 256,
    workers: int = 0,
    device: str = "auto",
    check: Callable[[ImageData], object] | None = None,
    progress: Progress | None = None,
) -> Collection:
    """Embed the images of a source, or read what an earlier call has embedded.

    Args:
        encoder: a run folder or a name for `open_encoder`, or an encoder.
        source: a data set by name, a folder, archive, table, array or list file, or images from Python.
        split: of the images, where they have splits.
        root: where named data sets live.
        cache: folder for features and indices; by default `explore` beside the named data sets.
        workers: processes that decode files.
        check: is called with the images before they are embedded; what it raises ends the call.
        progress: is called with what is being done, how much is done and how much there is.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> len(images)
        100
    """
    encoder = encoder if isinstance(encoder, PretrainedEncoder) else open_encoder(encoder, device=device)
    shown = None
    if isinstance(source, ImageData):
        data = source
    else:
        data = images_for(encoder, source, split, root=root)
        if str(source) not in DATA_SETS or data.shape != load(source, split, root=root).shape:
            shown = load(source, split, root=root)
    if check is not None:
        check(data)
    folder = (data_root() / "explore" if cache is None else Path(cache)) / f"{weights_key(encoder)}-{source_key(data)}"
    files = embed_images(encoder, data, folder, batch_size=batch_size, workers=workers, progress=progress)
    return Collection(encoder, data, files, shown=shown, progress=progress)
