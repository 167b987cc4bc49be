"""kvicreg explore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvicreg.checks import check_limits
from kvicreg.cli.errors import usage_errors
from kvicreg.cli.images import Images
from kvicreg.cli.progress import progress_bar
from kvicreg.storage import counted


def explore(
    images: Images,
    labels: Path | None = None,
    table: Path | None = None,
    kernel: str | None = None,
    port: int = 0,
    no_browser: bool = False,
) -> str:
    """See, search, clean and label images on a page in the browser, which this machine serves to itself alone.

    Images are embedded once; what is labelled is saved at every click. Nothing is ever deleted.

    Examples:
        kvicreg explore runs/first photos/
        kvicreg explore cifar10 --encoder pixels --labels mine.csv

    Args:
        labels: CSV file to save labels in, and to go on from; by default SOURCE-labels.csv in this folder.
        table: CSV file with a column "image" (or "index") and others to colour the map by.
        kernel: kernel to look into; by default that of the run, else rbf.
        port: of the page; by default a free one.
        no_browser: only print the address.
    """
    import webbrowser

    from kvicreg import kernels
    from kvicreg.explore.server import serve
    from kvicreg.explore.session import Session

    with usage_errors():
        check_limits("port", port, {"at_least": 0, "at_most": 65535})
        if kernel is not None:
            kernels.get(kernel)
    if table is not None:
        table.open().close()  # or the error that there is no such file
    with progress_bar() as progress:
        collection = images.open(progress)
    encoder, source = images.encoder_and_source
    kernel_of_run, projector = _kernel_of(Path(encoder))
    path = labels or Path(f"{Path(source).name or 'images'}-labels.csv")
    session = Session(collection, path, table=table, kernel=kernel or kernel_of_run, projector=projector)

    def ready(address: str) -> None:
        print(f"{counted(len(collection), 'image')}: {address} (ctrl-C ends it)", flush=True)
        if not no_browser:
            webbrowser.open(address)

    serve(session, port=port, ready=ready)
    return f"{counted(len(session.labels.labels), 'label')}: {path}"


def _kernel_of(run: Path) -> tuple[Any, Any]:
    """The kernel and the projector of a run, where there are such; else rbf, of the features themselves."""
    from kvicreg.runs import RunFolder, load_encoder

    folder = RunFolder(run)
    if not folder.exists:
        return "rbf", None
    options = getattr(folder.settings.method, "kernel", None)
    if options is None or folder.description.get("projector") is None:
        return "rbf", None
    return options.build(), load_encoder(run, projector=True).projector
