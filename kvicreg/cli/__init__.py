"""The command line: `main` finds the command, runs it, and turns what goes wrong into a sentence.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Set KVICREG_DEBUG=1 to see every traceback.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from kvicreg.cli.commands import COMMANDS, load, summary
from kvicreg.cli.errors import UsageError, command_line, is_first_process, tell, usage_errors
from kvicreg.cli.process import set_up

__all__ = ["COMMANDS", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit code.

    Example:
        >>> from kvicreg.cli import main
        >>> main(["data", "list", "--help"]) == main(["--version"]) == 0  # doctest: +ELLIPSIS
        usage: ...
        True
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    command_line[:] = argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if argv[0] in ("--version", "-V"):
        from kvicreg import __version__

        print(f"kvicreg {__version__}")
        return 0
    if len(argv) == 2 and argv[1] in ("-h", "--help") and any(c.startswith(f"{argv[0]} ") for c in COMMANDS):
        print(overview(argv[0]))
        return 0
    set_up()
    name = "kvicreg"
    try:
        name, words = find(argv)
        command, parses_itself = load(name)
        last_line = command(words) if parses_itself else call(command, name, words)
        if last_line and is_first_process():
            print(last_line)
        return 0
    except SystemExit as stop:  # tyro has already said what is wrong, or printed the help
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (head, less) has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - held until the interpreter exits
        return 0
    except Exception as error:
        return tell(error, name)


def overview(prefix: str = "") -> str:
    """The help page of `kvicreg`, or of a group of commands such as `data`."""
    names = [name for name in COMMANDS if name.startswith(f"{prefix} ".lstrip())]
    lines = [f"  {name:<{max(map(len, names))}}  {summary(name)}" for name in names]
    example = f"kvicreg {names[0]} --help" if prefix else "kvicreg train --data mnist --kernel laplacian"
    return "\n".join(
        [
            f"usage: kvicreg {prefix + ' ' if prefix else ''}COMMAND [OPTIONS]",
            "",
            "Kernel VICReg: self-supervised learning in a reproducing kernel Hilbert space.",
            "",
            *lines,
            "",
            "Every command has --help with an example; kvicreg --version tells the version.",
            f"Example: {example}",
        ]
    )


def find(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Split the command line into a command's name and its arguments."""
    from kvicreg.options import did_you_mean

    for words in (1, 2):
        name = " ".join(argv[:words])
        if name in COMMANDS:
            return name, list(argv[words:])
    groups = {name.split()[0] for name in COMMANDS if " " in name}
    if argv[0] in groups:
        names = [name.split()[1] for name in COMMANDS if name.startswith(f"{argv[0]} ")]
        word, where = (argv[1] if len(argv) > 1 else ""), f"kvicreg {argv[0]}"
    else:
        names, word, where = sorted(groups | set(COMMANDS)), argv[0], "kvicreg"
    raise UsageError(f"{where}: no command {word!r}; {did_you_mean(word, names)}")


def call(command: Callable[..., Any], name: str, words: list[str]) -> Any:
    """Read flags by the signature of a function, and call it."""
    import tyro

    @wraps(command)
    def parsed(*positional: Any, **flags: Any) -> Callable[[], Any]:
        return partial(command, *positional, **flags)

    description = inspect.cleandoc(command.__doc__ or "").split("\nArgs:")[0]
    marks = (tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff)
    with usage_errors():
        run = tyro.cli(parsed, prog=f"kvicreg {name}", description=description, args=words, config=marks)
    return run()
