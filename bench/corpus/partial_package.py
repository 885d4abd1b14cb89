"""Imports a few modules of a large package without the rest of it.

A serving or training framework imports its configuration, its extensions and dozens of other packages before its first
kernel. Of the package named here, only the modules in `real` are executed. Its folders are packages without contents,
and every other module of it, or of a package in `absent`, is replaced by a stand-in. The attributes of a stand-in are
those given for it (`values`); any other is an `Absent`, which does nothing: it can be called, subclassed and used as a
decorator, but a kernel or a function that needs it fails. No code of the package is changed.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PartialPackage:
    """A package of which some modules are executed.

    name: its top-level name. real: modules, or folders ending in ``.*`` all of whose modules are executed. values:
    makes the attributes of stand-ins, by the name of the module; called once, at the first import. absent: other
    top-level packages that it imports and that are not needed.
    """

    name: str
    real: tuple[str, ...]
    values: Callable[[], Mapping[str, Values]] = dict
    absent: tuple[str, ...] = ()

    def load(self, module: str) -> Any:
        """A module in `real`; the path of imports must have the package's folder."""
        if not any(isinstance(it, _Finder) and it.package is self for it in sys.meta_path):
            sys.meta_path.insert(0, _Finder(self, self.values()))
        return importlib.import_module(module)

    def wants(self, module: str) -> bool:
        """Whether a module is executed."""
        return any(module == it or (it.endswith(".*") and module.startswith(it[:-1])) for it in self.real)


class Absent:
    """Stands in for anything that is not there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Does nothing; as a decorator it returns what it decorates."""
        if len(args) == 1 and not kwargs and isinstance(args[0], (FunctionType, type)):
            return args[0]
        return Absent(f"{self._name}()")

    def __mro_entries__(self, bases: Sequence[Any]) -> tuple[type, ...]:
        return () if len(bases) > 1 else (object,)

    def __getitem__(self, key: Any) -> Any:
        return Absent(f"{self._name}[...]")

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())

    def __repr__(self) -> str:
        return f"<{self._name}, which is absent>"


@dataclass
class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of one package, and those that it is imported without."""

    package: PartialPackage
    values: Mapping[str, Values]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """How a module of the package is made; None for those of other packages."""
        root = name.split(".", 1)[0]
        if root != self.package.name:
            absent = any(name == it or name.startswith(f"{it}.") for it in self.package.absent)
            return importlib.machinery.ModuleSpec(name, self, is_package=True) if absent else None
        places = [Path(it, *name.split(".")) for it in sys.path]
        if self.package.wants(name):
            for place in places:
                if (place / "__init__.py").is_file():
                    return importlib.util.spec_from_file_location(name, place / "__init__.py")
                if place.with_suffix(".py").is_file():
                    return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        folders = [str(it) for it in places if it.is_dir()]
        if name == root and not folders:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = folders
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """A stand-in."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Gives a stand-in its attributes."""
        vars(module).update(self.values.get(module.__name__, {}))


class _StandIn(ModuleType):
    """A module that has every attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = f"{self.__name__}.{name}"
        finders = [it for it in sys.meta_path if isinstance(it, _Finder)]
        if any(it.package.wants(inner) or inner in it.values for it in finders):
            return importlib.import_module(inner)
        return Absent(inner)
