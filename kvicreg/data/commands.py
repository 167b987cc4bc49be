"""What `kvicreg data list | get NAME | show SOURCE | pack SOURCE` do; the command line wraps these functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kvicreg.data.batching import in_order
from kvicreg.data.catalogue import DATA_SETS, data_root
from kvicreg.data.fetching import get
from kvicreg.data.loading import load
from kvicreg.data.presets import ViewOptions
from kvicreg.data.transforms import visible
from kvicreg.data.views import Views
from kvicreg.storage import counted, quoted, replacing

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from rich.console import Console
    from rich.progress import ProgressColumn, TaskID


def list_data(root: Path | None = None) -> str:
    """Print the data sets known by name: what is here, how large, under which licence. Returns where they live."""
    from rich.console import Console
    from rich.table import Table

    place = data_root(root)
    table = Table("name", "here", box=None, header_style="bold")
    table.add_column("MB", justify="right")
    table.add_column("licence")
    table.add_column("training + test (+ unlabelled)")
    for name, entry in DATA_SETS.items():
        if name in ("mnist-small", "digits"):
            here = "built in"
        elif (place / name).is_dir() or (name == "imagenet100" and (place / "imagenet").is_dir()):
            here = "yes"
        else:
            here = "by hand" if entry.how else "no"
        table.add_row(name, here, f"{entry.megabytes:,}", entry.licence, entry.title)
    Console(soft_wrap=True).print(table)
    return f"Data sets live in {place}; fetch one with: kvicreg data get NAME"


def get_data(name: str, root: Path | None = None) -> str:
    """Fetch a data set, telling the progress. Returns where it is."""
    from rich.console import Console
    from rich.progress import DownloadColumn, TransferSpeedColumn

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with bars(console, DownloadColumn(), TransferSpeedColumn()) as progress:
        folder = get(name, root, say=console.print, progress=progress)
    return f"{name}: verified, in {folder}"


@contextmanager
def bars(console: Console, *columns: ProgressColumn) -> Iterator[Callable[[str, int, int | None], None]]:
    """Bars on a terminal, one for each name: a function of a name, what is done of it, and how much there is."""
    from rich.progress import BarColumn, Progress, TextColumn

    shown = (TextColumn("{task.description}"), BarColumn(), *columns)
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield progress


def pack_data(
    source: str, out: Path, shard_mb: int = 256, root: str | None = None, reading: Mapping[str, Any] | None = None
) -> str:
    """Write a source as shards, telling the progress. Returns what was written."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, TimeRemainingColumn

    from kvicreg.data.packing import pack

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with bars(console, MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        packed = pack(source, out, shard_mb=shard_mb, root=root, progress=progress, **(reading or {}))
    lines = []
    if packed.left_out:
        unreadable = counted(len(packed.left_out), "image")
        lines.append(f"Left out: {unreadable} that could not be read, such as {packed.left_out[0]}")
    images = ", ".join(f"{count:,} {split}" for split, count in packed.images.items())
    lines.append(f"{images} images in {counted(packed.shards, 'shard')} of {packed.size / 1e6:,.0f} MB: {out}")
    return "\n".join([*lines, f"Next: kvicreg train --data {quoted(out)}"])


def show_data(
    source: str,
    out: Path = Path("contact-sheet.png"),
    split: str = "train",
    images: int = 16,
    image_size: int | None = None,
    seed: int = 0,
    root: Path | None = None,
    views: ViewOptions | None = None,
    channels: int | None = None,
    reading: Mapping[str, Any] | None = None,
) -> str:
    """Write a contact sheet: evenly spaced images of `source`, each beside its two views. Returns where it is.

    Args:
        source: a data set's name, or images of one's own, as `load` takes them.
        images: how many.
        views: their preset, and strengths that differ from it.
        reading: how images of one's own are read, by the names of `ReadOptions`.
    """
    if images < 1:
        raise ValueError(f"images: expected at least 1, got {images}")
    data = load(source, split, root=root, image_size=image_size, channels=channels, **(reading or {}))
    chosen = data.subset(torch.linspace(0, len(data) - 1, min(images, len(data))).round().long())
    transform = Views.of(data, (views or ViewOptions()).config(data.name, data.shape[2]))
    rows, large = [], chosen.for_views()
    for batch, samples, _ in in_order(chosen, 64):
        stored = large.fetch(samples)
        two = [transform.pixels(transform(stored, samples, seed=seed, epoch=0, view=v)) for v in (0, 1)]
        rows.append(visible(torch.stack((batch.float(), *two), 1)))
    sheet = contact_sheet(torch.cat(rows))
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as temporary:
        sheet.save(temporary, _format_of(out))
    notes = [*data.notes, *([f"views without {', '.join(transform.skipped)}"] if transform.skipped else [])]
    return "\n".join([*notes, f"{counted(len(chosen), 'image')} of {data!r} and their two views: {out}"])


def _format_of(out: Path) -> str:
    """Pillow's name of the format that a file's ending asks for."""
    from PIL import Image

    formats = Image.registered_extensions()
    if out.suffix.lower() not in formats:
        raise ValueError(f"out: expected a picture's ending such as .png or .jpg, got {str(out)!r}")
    return formats[out.suffix.lower()]


def contact_sheet(rows: Tensor, tile: int = 96, columns: int = 4) -> Picture:
    """A picture of `rows`, uint8 (n, k, c, s, s): each row of k images side by side, `columns` rows abreast."""
    from PIL import Image

    n, k, _, s, _ = rows.shape
    zoom = max(1, tile // s)
    side, gap = s * zoom, max(4, s * zoom // 24)
    width, height = k * side + (k - 1) * 2 + 3 * gap, side + gap
    columns = min(columns, n)
    sheet = Image.new("RGB", (columns * width - gap, -(-n // columns) * height + gap), "white")
    for i, row in enumerate(rows):
        for j, pixels in enumerate(row):
            array = pixels.expand(3, s, s).permute(1, 2, 0).contiguous().numpy()
            image = Image.fromarray(array).resize((side, side), Image.Resampling.NEAREST)
            sheet.paste(image, (gap + (i % columns) * width + j * (side + 2), gap + (i // columns) * height))
    return sheet
