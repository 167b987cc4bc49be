"""Settings as small frozen dataclasses that check themselves, each beside the code that reads it.

Every kernel, method, encoder and optimizer owns an `Options` dataclass; together they make a tree. People give settings
by flat names (``--kernel rq --epochs 100``, the keys of a YAML file, keyword arguments): each part of the tree takes
what it reads, and what nothing has read is an error. Needs the standard library alone.
"""

from __future__ import annotations

import difflib
import pkgutil
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from kvicreg.checks import check_limits, checked

__all__ = ["Family", "Options", "Setting", "Values", "choice", "did_you_mean", "load_plugins", "option"]

T = TypeVar("T")
O = TypeVar("O", bound="Options")


def option(
    default: T,
    help: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    needs: str | None = None,
    flag: str | None = None,
    argument: bool = False,
) -> T:
    """A field of an `Options` dataclass.

    Args:
        default: its value unless given.
        help: one sentence for the command line and the documentation.
        above, at_least, below, at_most: limits of a number; every number must be finite.
        needs: another field without which this one is not read.
        flag: the flat name, where it is not the field's own.
        argument: given behind a colon in the name of the choice, as in ``timm:resnet50``, not by a name of its own.
    """
    limits = {"above": above, "at_least": at_least, "below": below, "at_most": at_most}
    about = {"help": help, "limits": {k: v for k, v in limits.items() if v is not None}, "needs": needs}
    return field(default=default, metadata={**about, "flag": flag, "argument": argument})


def choice(default: str, family: Family[O], help: str) -> O:
    """A field that holds the options of one member of a family; its flat value is the member's name."""
    about = {"help": help, "family": family}
    return field(default_factory=lambda: family.read(default, Values({})), metadata=about)


class Values:
    """Settings by flat name, and which of them have been read."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = dict(given)
        self.read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def take(self, name: str) -> Any:
        """The value of a setting, which counts as read."""
        self.read.add(name)
        return self.given[name]


class Setting(NamedTuple):
    """One setting as people see it."""

    name: str
    value: Any
    default: Any
    type: Any
    help: str
    choices: tuple[str, ...]
    """The names to choose from; empty for plain values."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """A group of settings. Fields are made by `option`, `choice`, or are groups themselves.

    ``class Adam(OptimizerOptions, name="adam")`` makes a member of the family that the base class declares.
    """

    name: ClassVar[str] = ""
    family: ClassVar[Family[Any]]

    def __init_subclass__(cls, name: str | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if name is not None:
            cls.name = cls.family.add(name, cls)

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        for f in _fields(type(self)):
            value = getattr(self, f.name)
            if "limits" not in f.metadata:
                continue
            value = checked(value, hints[f.name], _flag(f))
            check_limits(_flag(f), value, f.metadata["limits"])
            object.__setattr__(self, f.name, value)
            needs = f.metadata["needs"]
            if needs is not None and value != f.default and getattr(self, needs) in (None, False):
                raise ValueError(f"{_flag(f)} is read only with {needs}, which is not given")

    @property
    def choice(self) -> str:
        """The name by which these options are chosen."""
        argument = _argument(type(self))
        return self.name if argument is None else f"{self.name}:{getattr(self, argument)}"

    @classmethod
    def read(cls, values: Values, **fixed: Any) -> Self:
        """The options that `values` give; those not given keep their defaults, `fixed` fields their values."""
        taken = dict(fixed)
        for f in _fields(cls):
            if f.name in taken:
                continue
            if "family" in f.metadata:
                if f.name in values:
                    taken[f.name] = f.metadata["family"].read(values.take(f.name), values)
                else:
                    taken[f.name] = f.metadata["family"].read(_default(f).choice, values)
            elif _is_group(f):
                taken[f.name] = f.default_factory.read(values)  # type: ignore[union-attr]
            elif not f.metadata["argument"] and _flag(f) in values:
                taken[f.name] = values.take(_flag(f))
        return cls(**taken)

    def settings(self) -> Iterator[Setting]:
        """Every setting that is read under the choices made, in order."""
        hints = _hints(type(self))
        for f in _fields(type(self)):
            value = getattr(self, f.name)
            if "family" in f.metadata:
                names = tuple(f.metadata["family"].names())
                yield Setting(f.name, value.choice, _default(f).choice, str, f.metadata["help"], names)
                yield from value.settings()
            elif isinstance(value, Options):
                yield from value.settings()
            elif not f.metadata["argument"]:
                yield Setting(_flag(f), value, f.default, hints[f.name], f.metadata["help"], ())

    def flat(self) -> dict[str, Any]:
        """Every setting by name."""
        return {setting.name: setting.value for setting in self.settings()}

    def given(self) -> dict[str, Any]:
        """The settings that differ from their defaults, by name."""
        return {setting.name: setting.value for setting in self.settings() if setting.value != setting.default}

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Options from flat names; a name that nothing reads is an error."""
        return cls._complete(settings, settings)

    def replace(self, **settings: Any) -> Self:
        """These options with some changed; what the changes leave unread goes."""
        return self._complete({**self.given(), **settings}, settings)

    @classmethod
    def _complete(cls, given: Mapping[str, Any], must_be_read: Mapping[str, Any]) -> Self:
        values, by = Values(given), readers(cls)
        options = cls.read(values)
        for name in must_be_read:
            if name not in values.read:
                if name not in by:
                    raise ValueError(f"there is no setting {name!r}; {did_you_mean(name, by, '--help all')}")
                raise ValueError(_unread(name, options, by[name]))
        return options


def load_plugins(group: str) -> None:
    """Import what other installed packages add: the entry points of a group, such as "kvicreg.kernels"."""
    for plugin in entry_points(group=group):
        try:
            plugin.load()
        except Exception as error:
            package = "" if plugin.dist is None else f" of the package {plugin.dist.name}"
            reason = f"{type(error).__name__}: {error}"
            raise ImportError(f"the plugin {plugin.value}{package} can't be loaded: {reason}") from error


class Family(Generic[O]):
    """Options of one kind that are chosen by name, such as the methods.

    Args:
        kind: what they are, in the singular, for messages.
        package: where members live; its modules are imported when a name is first looked up, and so are the plugins of
            other packages, which they declare as entry points of a group of the same name.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind, self.package = kind, package
        self.members: dict[str, type[O]] = {}
        self._is_loaded = False

    def load(self) -> dict[str, type[O]]:
        """All members, after every module of the package has been imported."""
        if not self._is_loaded:
            package = import_module(self.package)
            for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
                try:
                    import_module(f"{self.package}.{module.name}")
                except Exception as error:
                    file = f"{self.package.replace('.', '/')}/{module.name}.py"
                    raise ImportError(f"{file} can't be imported: {type(error).__name__}: {error}") from error
            self._is_loaded = True
            load_plugins(self.package)
        return self.members

    def key(self, name: str) -> str:
        """The name as members are listed by it."""
        return name

    def add(self, name: str, member: type[O]) -> str:
        """Make a class the member of that name; only the same class, imported anew, takes another's place."""
        key = self.key(name)
        if not re.fullmatch(r"[\w-]+", key):
            raise ValueError(f"a {self.kind} can't be called {name!r}: use letters, digits, - and _")
        both = [f"{cls.__module__}.{cls.__qualname__}" for cls in (self.members.get(key, member), member)]
        if both[0] != both[1]:
            raise ValueError(f"there are two classes for the {self.kind} {key!r}: {both[0]} and {both[1]}")
        self.members[key] = member
        return key

    def names(self) -> list[str]:
        """The names to choose from."""
        return [name if _argument(member) is None else f"{name}:NAME" for name, member in self.load().items()]

    def find(self, name: str) -> type[O]:
        """The options class called `name`."""
        if not isinstance(name, str) or name not in self.load():
            raise ValueError(f"there is no {self.kind} {name!r}; {did_you_mean(name, self.names())}")
        return self.members[name]

    def read(self, name: str, values: Values) -> O:
        """The options of the member `name`, from the values that it reads."""
        stem, colon, argument = str(name).partition(":")
        member = self.find(stem if colon else name)
        wanted = _argument(member)
        if bool(colon) != (wanted is not None):
            raise ValueError(f"there is no {self.kind} {name!r}; {did_you_mean(name, self.names())}")
        return member.read(values, **({} if wanted is None else {wanted: argument}))


def readers(cls: type[Options]) -> dict[str, list[str]]:
    """Every setting that any choice in the tree reads, with the choices that do (none for those always read).

    Choices that exclude each other may read one name; parts that are read together may not, which is an error.
    """
    by_name: dict[str, list[str]] = {}
    for f in _fields(cls):
        for names in _names_read(f):
            for name in names.keys() & by_name.keys():
                two = [(by or [cls.__name__])[0] for by in (by_name[name], names[name])]
                raise ValueError(f"{two[0]} and {two[1]} both read {name!r} in {cls.__name__}: rename one of them")
            by_name |= names
    return by_name


def _names_read(f: Field[Any]) -> Iterator[dict[str, list[str]]]:
    """The settings that a field brings, each with the choices that read it."""
    if "family" in f.metadata:
        yield {f.name: []}
        members: dict[str, list[str]] = {}
        for name, member in f.metadata["family"].load().items():
            for setting, by in readers(member).items():
                members.setdefault(setting, []).extend(by or [f"{f.name} {name}"])
        yield {name: list(dict.fromkeys(by)) for name, by in members.items()}
    elif _is_group(f):
        yield readers(f.default_factory)  # type: ignore[arg-type]
    elif not f.metadata["argument"]:
        yield {_flag(f): []}


def did_you_mean(name: object, names: typing.Iterable[str], listed_by: str = "") -> str:
    """The nearest of the names as a question, or the names; of very many the first, and what lists them all."""
    names = list(names)
    near = difflib.get_close_matches(str(name), names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if len(names) <= 20:
        return f"there are {', '.join(names)}"
    return f"there are {', '.join(names[:5])} and {len(names) - 5} more{listed_by and f' ({listed_by})'}"


def _unread(name: str, options: Options, reading: list[str]) -> str:
    """Why a setting is refused: the choice under which nothing reads it, and those that would."""
    chosen = {setting.name: str(setting.value) for setting in options.settings() if setting.choices}
    deciding = [kind for kind in dict.fromkeys(by.split()[0] for by in reading) if kind in chosen]
    under = ", ".join(f"{kind} {chosen[kind]}" for kind in deciding or list(chosen)[:1])
    return f"nothing reads {name} with {under}; it is read by {', '.join(reading)}"


def _flag(f: Field[Any]) -> str:
    return f.metadata["flag"] or f.name


def _is_group(f: Field[Any]) -> bool:
    return isinstance(f.default_factory, type) and issubclass(f.default_factory, Options)


def _default(f: Field[Any]) -> Any:
    return f.default_factory() if f.default_factory is not MISSING else f.default


_HINTS: dict[type, dict[str, Any]] = {}
_FIELDS: dict[type, tuple[Field[Any], ...]] = {}


def _hints(cls: type) -> dict[str, Any]:
    """The types of a class's fields, worked out once."""
    if cls not in _HINTS:
        _HINTS[cls] = typing.get_type_hints(cls)
    return _HINTS[cls]


def _fields(cls: type[Options]) -> tuple[Field[Any], ...]:
    """The fields of a class of options; how they are made is checked once."""
    if cls not in _FIELDS:
        if any(isinstance(value, Field) for value in vars(cls).values()):
            raise TypeError(f"{cls.__name__} has settings, so write @dataclass(frozen=True, kw_only=True) above it")
        for f in fields(cls):
            if not ("family" in f.metadata or "argument" in f.metadata or _is_group(f)):
                raise TypeError(f"{cls.__name__}.{f.name}: make it with option(default, help)")
        _FIELDS[cls] = fields(cls)
    return _FIELDS[cls]


def _argument(cls: type[Options]) -> str | None:
    return next((f.name for f in _fields(cls) if f.metadata.get("argument")), None)
