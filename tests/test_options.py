"""Options: what is refused when a class of them is written, before anyone chooses it, and in which words."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from kvicreg import kernels
from kvicreg.cli.data import ShowOptions
from kvicreg.cli.select import SelectFlags
from kvicreg.cli.train import TrainOptions
from kvicreg.evaluation.options import EvaluationOptions
from kvicreg.kernels.options import KERNELS, KernelOptions, StationaryOptions
from kvicreg.methods import METHODS, MethodOptions
from kvicreg.optimizers import OPTIMIZERS, OptimizerOptions
from kvicreg.options import Family, Options, choice, did_you_mean, option, readers
from kvicreg.runs import Settings

COLOURS: Family[Any] = Family("colour", "json")


@dataclass(frozen=True, kw_only=True)
class ColourOptions(Options):
    family: ClassVar[Family[Any]] = COLOURS


@pytest.fixture(autouse=True)
def families_as_they_were():
    before = [(family, dict(family.load())) for family in (COLOURS, KERNELS, METHODS, OPTIMIZERS)]
    yield
    for family, members in before:
        family.members.clear()
        family.members.update(members)


# ---- names


def test_a_name_belongs_to_one_class():
    class Red(ColourOptions, name="red"):
        pass

    with pytest.raises(ValueError, match=r"two classes for the colour 'red': .*\.Red and .*\.Crimson"):

        class Crimson(ColourOptions, name="red"):
            pass

    assert COLOURS.members["red"] is Red


def test_a_module_that_is_imported_anew_replaces_its_own_classes():
    source = "class Red(ColourOptions, name='red'): pass"
    for _ in range(2):
        space = {"ColourOptions": ColourOptions, "__name__": "some.module"}
        exec(source, space)
        assert COLOURS.members["red"] is space["Red"]


def test_a_kernel_is_named_by_its_class_or_by_its_options_and_not_by_both():
    class Toy(kernels.StationaryKernel, name="toy"):
        pass

    with pytest.raises(ValueError, match=r"two classes for the kernel 'toy': .*Toy.Options and .*ToyOptions"):

        class ToyOptions(StationaryOptions, name="toy"):
            pass


@pytest.mark.parametrize("written", ["Toy-Cauchy", "toy_cauchy", "TOY_CAUCHY"])
def test_kernels_are_found_by_the_name_they_were_given(written):
    class Cauchy(kernels.StationaryKernel, name=written):
        def profile(self, exponent):
            return 1 / (1 - exponent)

    assert isinstance(kernels.get(written), Cauchy)
    assert isinstance(kernels.get("toy-cauchy"), Cauchy)
    assert Cauchy.Options.name == "toy_cauchy"


@pytest.mark.parametrize("name", ["a+b", "a*b", "a:b", "a b", ""])
def test_names_that_could_not_be_chosen_are_refused(name):
    with pytest.raises(ValueError, match="can't be called .*: use letters, digits, - and _"):

        class Toy(kernels.StationaryKernel, name=name):
            pass


# ---- two parts that read one name


@pytest.mark.parametrize("tree", [Settings, TrainOptions, SelectFlags, ShowOptions, EvaluationOptions])
def test_no_two_parts_that_are_read_together_read_one_name(tree):
    assert readers(tree)


@pytest.mark.parametrize(
    ("base", "setting", "clash"),
    [
        (StationaryOptions, "width", "kernel toy and encoder small-cnn"),
        (MethodOptions, "clip", "method toy and optimizer adam"),
        (MethodOptions, "epochs", "method toy and Settings"),
        (OptimizerOptions, "optimizer", "Settings and optimizer toy"),
    ],
)
def test_a_setting_that_another_part_reads_is_refused(base, setting, clash):
    body = {"__annotations__": {setting: float}, setting: option(1.0, "A setting."), "__module__": __name__}
    dataclass(frozen=True, kw_only=True)(type(base)("ToyOptions", (base,), body, name="toy"))
    with pytest.raises(ValueError, match=f"{clash} both read '{setting}' in Settings: rename one of them"):
        Settings.of()


def test_choices_that_exclude_each_other_may_read_one_name():
    for name in ("red", "blue"):

        @dataclass(frozen=True, kw_only=True)
        class Colour(ColourOptions):
            depth: int = option(1, "How deep.")

        COLOURS.add(name, Colour)

    @dataclass(frozen=True, kw_only=True)
    class Paint(Options):
        colour: Any = choice("red", COLOURS, "The colour.")

    assert readers(Paint) == {"colour": [], "depth": ["colour red", "colour blue"]}


# ---- classes that are not finished


def test_a_field_is_made_with_option():
    @dataclass(frozen=True, kw_only=True)
    class Loose(Options):
        depth: int = 3

    for look in (Loose, Loose.of, lambda: readers(Loose)):
        with pytest.raises(TypeError, match=r"Loose.depth: make it with option\(default, help\)"):
            look()


def test_settings_need_a_dataclass():
    class Bare(Options):
        depth: int = option(3, "How deep.")
        group: ColourOptions = field(default_factory=ColourOptions)

    for look in (Bare, Bare.of, lambda: readers(Bare)):
        with pytest.raises(TypeError, match=r"Bare has settings, so write @dataclass\(frozen=True, kw_only=True\)"):
            look()


@pytest.mark.parametrize("base", [KernelOptions, StationaryOptions])
def test_options_of_a_kernel_make_it(base):
    class ToyOptions(base, name="toy"):
        pass

    with pytest.raises(NotImplementedError, match=r"ToyOptions must define make\(\)"):
        kernels.get("toy")


def test_options_of_an_optimizer_make_it():
    class ToyOptions(OptimizerOptions, name="toy"):
        pass

    with pytest.raises(NotImplementedError, match=r"ToyOptions must define make\(\)"):
        Settings.of(optimizer="toy").optimizer.make([])


def test_options_of_a_method_name_its_class():
    class ToyOptions(MethodOptions, name="toy"):
        pass

    with pytest.raises(TypeError, match="ToyOptions must name its class as method, or define build"):
        Settings.of(method="toy").method.build(None, None)


@pytest.mark.parametrize("default", ["", " = 0.5"])
def test_a_setting_of_a_kernel_that_no_options_read_is_refused(default):
    source = f"class Toy(StationaryKernel, name='toy'):\n    def __init__(self, gamma=1.0, *, stretch{default}): pass"
    with pytest.raises(TypeError, match=r"nothing would read stretch of Toy: .*ToyOptions\(StationaryOptions, name"):
        exec(source, {"StationaryKernel": kernels.StationaryKernel, "__name__": "some.module"})


def test_a_module_that_can_not_be_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "shades").mkdir()
    (tmp_path / "shades/__init__.py").touch()
    (tmp_path / "shades/grey.py").write_text("colour")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"shades/grey.py can't be imported: NameError: name 'colour'"):
        Family("shade", "shades").find("grey")
    monkeypatch.delitem(sys.modules, "shades")


# ---- names that are not there


def test_of_many_names_a_handful_is_shown():
    assert did_you_mean("zzz", ["red", "blue"]) == "there are red, blue"
    assert did_you_mean("zzz", map(str, range(25))) == "there are 0, 1, 2, 3, 4 and 20 more"
    with pytest.raises(ValueError, match=r"no setting 'zzzzz'; there are \w+(, \w+){4} and \d+ more \(--help all\)"):
        Settings.of(zzzzz=1)
