"""kvicreg search | duplicates | outliers | coreset | problems | collect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from kvicreg.cli.errors import UsageError, check_numbers, usage_errors
from kvicreg.cli.progress import progress_bar
from kvicreg.storage import counted

if TYPE_CHECKING:
    from kvicreg.data import ImageData
    from kvicreg.explore import Collection


@dataclass(frozen=True)
class Opening:
    """Which images, by which encoder."""

    places: tyro.conf.Positional[list[str]]
    """RUN SOURCE: a run folder, and a folder of images, data set by name, archive, table or list file.
    SOURCE alone with --encoder."""
    encoder: str | None = None
    """In place of a run: "pixels", or an encoder with published weights, such as timm:resnet50 or hf:NAME."""
    weights: Path | None = None
    """File of the weights of --encoder, in place of its published ones."""
    image_size: int = 224
    """Side of the images that --encoder takes."""
    split: str = "train"
    """Split of the images, where they have splits."""
    data_root: Path | None = None
    """Where data sets live."""
    cache: Path | None = None
    """Folder for features and indices, computed once; by default explore/ beside the data sets."""
    batch_size: int = 256
    """Images at a time."""
    workers: int = 2
    """Processes that decode files."""
    device: str = "auto"
    """cpu, cuda, or auto."""

    @property
    def encoder_and_source(self) -> tuple[str, str]:
        """What the positional arguments and --encoder name together."""
        places = [*([] if self.encoder is None else [self.encoder]), *self.places]
        if len(places) != 2:
            raise UsageError(
                "expected RUN SOURCE, or SOURCE with --encoder, for example: kvicreg search runs/first photos/; "
                f"got {' '.join(self.places) or 'nothing'}"
            )
        return places[0], places[1]

    def open(
        self,
        progress: Any,
        source: str | None = None,
        split: str | None = None,
        check: Callable[[ImageData], object] | None = None,
    ) -> Collection:
        """Embed the images, or read what was embedded; another source or split may take their place.

        Before that, `check` is called with the images.
        """
        check_numbers(image_size=self.image_size, batch_size=self.batch_size)
        check_numbers(0, workers=self.workers)
        name, usual = self.encoder_and_source
        from kvicreg.explore import open_encoder, open_images

        encoder = open_encoder(name, weights=self.weights, image_size=self.image_size, device=self.device)
        return open_images(
            encoder, source or usual, split=split or self.split, root=self.data_root, cache=self.cache,
            batch_size=self.batch_size, workers=self.workers, check=check, progress=progress,
        )  # fmt: skip


Images = Annotated[Opening, tyro.conf.arg(name="")]


def search(
    images: Images,
    image: Path | None = None,
    positive: tuple[int, ...] = (),
    negative: tuple[int, ...] = (),
    count: int = 10,
    out: Path | None = None,
) -> str:
    """Find the images most like an image, or like some examples and unlike others.

    Examples:
        kvicreg search runs/first photos/ --image cat.jpg
        kvicreg search runs/first cifar10 --positive 3 17 --negative 5 --out frogs.csv

    Args:
        image: file of an image from anywhere.
        positive: numbers of images of the source to be near to.
        negative: numbers of images of the source to be far from.
        count: how many to give.
        out: CSV file to write as well.
    """
    check_numbers(count=count)
    from kvicreg.explore import write_table
    from kvicreg.explore.collection import check_examples, read_image

    def check(data: ImageData) -> None:
        check_examples(len(data), positive, negative, has_image=image is not None)
        if image is not None:
            read_image(image, data)

    with progress_bar() as progress:
        collection = images.open(progress, check=check)
        matches = collection.search(image, positive=positive, negative=negative, count=count)
    for match in matches:
        print(f"{match.similarity:7.4f}  {match.name}")
    written = ""
    if out is not None:
        write_table(out, collection.data, ["similarity"], [(match.index, [match.similarity]) for match in matches])
        written = f": {out}"
    return f"{len(matches)} of {len(collection):,} images{written}"


def duplicates(
    images: Images,
    threshold: float = 0.75,
    mirrored: bool = True,
    against: str | None = None,
    against_split: str | None = None,
    out: Path = Path("duplicates.csv"),
) -> str:
    """List near duplicates as groups, the most alike first, or the images that another source has too.

    Nothing is deleted: kvicreg collect copies or links what the list names.

    Examples:
        kvicreg duplicates runs/first photos/ --threshold 0.8 --out duplicates.csv
        kvicreg duplicates runs/first photos/train --against photos/test --out leaks.csv
        kvicreg duplicates runs/first cifar10 --against-split test --out leaks.csv

    Args:
        threshold: cosine of two images from which on they are duplicates.
        mirrored: mirror images are duplicates too, for which all are embedded twice; --no-mirrored leaves them out.
        against: another source: lists the images that are in both.
        against_split: another split, of the same source or of the other one.
        out: CSV file to write.
    """
    from kvicreg.data import load
    from kvicreg.explore import duplicate_groups, leaks, write_table
    from kvicreg.explore.duplicates import check_threshold

    with usage_errors():
        check_threshold(threshold)
    has_others = against is not None or against_split is not None

    def check(_: ImageData) -> None:
        if has_others:
            source = against or images.encoder_and_source[1]
            load(source, against_split or images.split, root=images.data_root)

    with progress_bar() as progress:
        collection = images.open(progress, check=check)
        if has_others:
            others = images.open(progress, against, against_split)
            pairs = leaks(collection, others, threshold)
            rows = [(leak.index, [_full_name(others, leak.other), leak.similarity]) for leak in pairs]
            write_table(out, collection.data, ["other", "similarity"], rows)
            return f"{len(pairs):,} of {len(collection):,} images have one like them in the other source: {out}"
        groups = duplicate_groups(collection, threshold, mirrored=mirrored)
    members = [(index, [f"{number}"]) for number, group in enumerate(groups, 1) for index in group]
    write_table(out, collection.data, ["group"], members)
    return f"{len(members):,} of {len(collection):,} images in {counted(len(groups), 'group')}: {out}"


def _full_name(images: Collection, index: int) -> str:
    return str(index) if images.data.paths is None else str(images.data.paths[index])


def outliers(images: Images, count: int | None = None, out: Path = Path("outliers.csv")) -> str:
    """List the images that are least like any others, the most apart first.

    Example:
        kvicreg outliers runs/first photos/ --count 100 --out outliers.csv

    Args:
        count: how many; by default all.
        out: CSV file to write.
    """
    check_numbers(count=count)
    from kvicreg.explore import outlier_scores, write_table

    with progress_bar() as progress:
        collection = images.open(progress)
        scores = outlier_scores(collection)
    order = scores.nan_to_num(-1.0).argsort(descending=True)[:count].tolist()
    rows = [(index, [float(scores[index])]) for index in order if collection.readable[index]]
    return (
        f"{write_table(out, collection.data, ['score'], rows):,} of {len(collection):,} images by outlier score: {out}"
    )


def coreset(images: Images, keep: int = 1000, out: Path = Path("coreset.csv")) -> str:
    """List a diverse subset: as few images as you keep, as far from each other as they can be.

    Example:
        kvicreg coreset runs/first photos/ --keep 1000 --out coreset.csv

    Args:
        keep: how many images.
        out: CSV file to write; its first rows are a smaller such subset.
    """
    check_numbers(keep=keep)
    from kvicreg.explore import coreset as choose
    from kvicreg.explore import write_table
    from kvicreg.explore.scores import check_keep

    with progress_bar() as progress:
        collection = images.open(progress, check=lambda data: check_keep(keep, len(data)))
        chosen = choose(collection, keep).tolist()
    rows = [(index, [number]) for number, index in enumerate(chosen, 1)]
    return f"{write_table(out, collection.data, ['order'], rows):,} of {len(collection):,} images: {out}"


def problems(
    source: str,
    /,
    split: str = "train",
    tiny: int = 32,
    blank: float = 4.0,
    blurred: float = 0.004,
    data_root: Path | None = None,
    workers: int = 2,
    out: Path = Path("problems.csv"),
) -> str:
    """List files that are unreadable, tiny, blank, blurred, or copies of others byte for byte.

    Example:
        kvicreg problems photos/ --out problems.csv

    Args:
        source: folder of images, data set by name, archive, table or list file.
        split: split of the images, where they have splits.
        tiny: shorter side in pixels below which an image is tiny.
        blank: deviation of the grey values, of 0 to 255, below which an image is blank.
        blurred: variance of the Laplacian over that of the image below which it is blurred; 0 for none.
        data_root: where data sets live.
        workers: files that are looked at side by side.
        out: CSV file to write.
    """
    check_numbers(0, tiny=tiny, blank=blank, blurred=blurred, workers=workers)
    from collections import Counter

    from kvicreg.data import load
    from kvicreg.explore import file_problems, write_table

    data = load(source, split, root=data_root)
    with progress_bar() as progress:
        rows = file_problems(data, tiny=tiny, blank=blank, blurred=blurred, workers=workers, progress=progress)
    write_table(out, data, ["problem", "detail"], [(row.index, [row.kind, row.detail]) for row in rows])
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(row.kind for row in rows).most_common())
    return f"{counted(len(rows), 'problem')} of {len(data):,} images ({kinds or 'none'}): {out}"


def collect(table: Path, /, to: Path, link: bool = False) -> str:
    """Copy, or link, the files that a list names into a folder; the files themselves stay as they are.

    A column "group" or "label" becomes a subfolder.

    Example:
        kvicreg collect duplicates.csv --to duplicates/ --link

    Args:
        table: CSV file that another command wrote, with a column "image".
        to: folder, absent or empty.
        link: symbolic links in place of copies.
    """
    from kvicreg.explore import collect as gather

    count, absent = gather(table, to, link=link)
    missing = f"; {len(absent):,} are not there, such as {absent[0]}" if absent else ""
    return f"{counted(count, 'file')} {'linked' if link else 'copied'}{missing}: {to}"
