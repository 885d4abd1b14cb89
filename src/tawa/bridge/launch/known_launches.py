"""Launches of a `JITFunction` like earlier ones: one look into a dict, and Triton's launcher is called.

`JITFunction.run` writes the options of each launch as text, to find the compiled kernel by it. A launch under
`tawa.jit` also has options of Tawa's, and a request around it. For a launch with the same argument types, constants,
options, request and settings as an earlier one all of that leads to the same kernel, so it is found by those values.

What Triton checks at every launch is checked here, too: global variables that the kernel read when it was compiled,
hooks, and whether the kernel is still in Triton's own cache. In doubt Triton launches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton import knobs
from triton.language import constexpr
from triton.runtime import driver

from tawa.bridge.driver.request import surrounding_suffix
from tawa.bridge.launch.descriptors import EncodingLauncher, Passed
from tawa.bridge.launch.straight import straight
from tawa.bridge.triton.versions import triton_version
from tawa.plan import Plan

_driver: Any = driver
_MOST_KNOWN = 1024
_MISSING = object()
_IMMUTABLE = (bool, int, float, str, type(None))
_HookChain = knobs.HookChain
_HOOK_IN_KEY = triton_version()[:2] >= (3, 7)
"""Triton's key of a kernel in memory has the answer of the stage hook."""
_FPSAN = hasattr(type(knobs.compilation), "fpsan_homomorphic_casts")


_KERNELS, _BINDER = 0, 4
"""Places in what Triton keeps of a function for one device."""


@dataclass(slots=True)
class _Known:
    """A kernel that was launched. key: in Triton's cache. run: its launcher; start: the same, or a shorter way to it.

    plan: a Plan among the options, kept so that no other gets its id. read: the immutable objects of global variables
    that equalled what the kernel read, by the variable.
    """

    kernel: Any
    key: Any
    run: Callable[..., Any]
    start: Callable[..., Any]
    plan: Any
    read: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def holds(self, function: Any, device: int) -> bool:
        """Whether Triton would still launch it: it is in the cache, and no global variable that it read has changed."""
        if (
            function.device_caches[device][_KERNELS].get(self.key) is not self.kernel
            or self.kernel._run is not self.run
        ):
            return False
        read = self.read
        for variable, (value, where) in function.used_global_vals.items():
            now = where.get(variable[0], _MISSING)
            if now is read.get(variable, _MISSING) and now is not _MISSING:
                continue
            if now != value:
                return False
            if _never_changes(now):
                read[variable] = now
        return True

    def launch(self, grid: Sequence[int], device: int, values: Collection[Any]) -> None:
        """Launches it on the current stream. values: of all parameters."""
        kernel, axes = self.kernel, len(grid)
        stream = _driver.active.get_current_stream(device)
        enter, leave, about = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook, None
        if type(enter) is _HookChain and type(leave) is _HookChain and not enter.calls and not leave.calls:
            enter = leave = None  # Triton would call both chains, which are empty
        else:
            about = kernel.launch_metadata(grid, stream, *values)
        self.start(
            grid[0], grid[1] if axes > 1 else 1, grid[2] if axes > 2 else 1, stream, kernel.function,
            kernel.packed_metadata, about, enter, leave, *values,
        )  # fmt: skip


def _never_changes(value: Any) -> bool:
    return type(value) in _IMMUTABLE or (type(value) is constexpr and type(value.value) in _IMMUTABLE)


class KnownLaunches:
    """The launches of one function that were made. A launch that is not like any of them is left to the caller."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.known: dict[Any, _Known] = {}

    def launch(self, args: Sequence[Any], grid: Any, kwargs: Mapping[str, Any]) -> Any:
        """Launches the kernel and returns it; None if no launch was like this one, and then nothing happened.

        kwargs: with Tawa's options.
        """
        function = self.function
        device: int = _driver.active.get_current_device()
        bound, specialization, options = function.device_caches[device][_BINDER](*args, **kwargs)
        key = _key(function, device, specialization, options)
        try:
            known = self.known.get(key)
        except TypeError:  # a value that cannot be hashed
            known = self.known.get(_key(function, device, specialization, _hashable(options)))
        if known is None:
            return None
        if not known.holds(function, device):
            self.known.clear()  # so that no kernel is kept that Triton has forgotten
            return None
        sizes: Any = grid(bound) if callable(grid) else grid
        known.launch(sizes, device, bound.values())
        return known.kernel

    def add(self, args: Sequence[Any], kwargs: Mapping[str, Any], kernel: Any) -> None:
        """Remembers that Triton launched `kernel` for these arguments; not a kernel that is still being compiled."""
        run = getattr(kernel, "_run", None)
        if run is None:
            return
        function = self.function
        device: int = _driver.active.get_current_device()
        caches = function.device_caches[device]
        key = next((key for key, it in caches[_KERNELS].items() if it is kernel), None)
        if key is None:
            return
        _, specialization, options = caches[_BINDER](*args, **kwargs)
        if len(self.known) >= _MOST_KNOWN:
            self.known.clear()
        made = _Known(kernel, key, run, straight(run), options.get("plan"))
        at = _key(function, device, specialization, options)
        try:
            self.known[at] = made
        except TypeError:
            self.known[_key(function, device, specialization, _hashable(options))] = made

    def prepared(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], describe: Sequence[Describe | None]
    ) -> PreparedLaunch | None:
        """Prepares launches that differ from an earlier one in the first arguments only; None if there was none.

        describe: of these arguments. Their types, and whether addresses are multiples of 16, must be the same.
        """
        function = self.function
        device: int = _driver.active.get_current_device()
        bound, specialization, options = function.device_caches[device][_BINDER](*args, **kwargs)
        known = self.known.get(_key(function, device, specialization, options))
        rest = tuple(bound.values())[len(describe) :]
        return None if known is None else PreparedLaunch(function, known, describe, rest, device, _state(function))


class PreparedLaunch:
    """Launches whose arguments are known but for the first ones, for operators that know what they pass.

    describe: for each of the first arguments that becomes a descriptor, how it is made of a tensor; None for the
    others: tensors and numbers, and None where a constant is None. Its encodings are kept by the tensor's address.
    """

    __slots__ = (
        "added", "describe", "device", "encoders", "function", "grid", "inner", "kernel", "known", "launcher", "passed",
        "rest", "state",
    )  # fmt: skip

    def __init__(
        self, function: Any, known: _Known, describe: Sequence[Describe | None], rest: tuple[Any, ...], device: int,
        state: Any,
    ) -> None:  # fmt: skip
        self.function, self.known, self.describe, self.rest = function, known, describe, rest
        self.device, self.state = device, state
        start: Any = known.start
        self.kernel, self.grid, self.added = (known.kernel.function, known.kernel.packed_metadata), (), ()
        self.inner = start.inner if isinstance(start, EncodingLauncher) else start
        self.launcher: Any = start if hasattr(start, "settled") else None
        self.passed: Passed | None = getattr(start, "passed", None)
        kept = {} if self.passed is None else self.passed.kept
        self.encoders = [it and _Encoder(it, kept.get(at)) for at, it in enumerate(describe)]

    def __call__(self, grid: tuple[int, ...], first: tuple[Any, ...]) -> bool:
        """Launches; False if the kernel, its settings or the request around it are others by now.

        Triton's launcher gets addresses in place of tensors, so it need not ask the driver about them.
        """
        function, known = self.function, self.known
        made: Any = self  # or what a launcher with a choice has made, which has the same fields
        device: int = _driver.active.get_current_device()
        if device != self.device or function.pre_run_hooks or _state(function) != self.state:
            return False
        if not known.holds(function, device):
            return False
        function.last_kernel = known.kernel
        enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
        if type(enter) is not _HookChain or type(leave) is not _HookChain or enter.calls or leave.calls:
            made = None
        else:
            axes = len(grid)
            grid = grid if axes == 3 else (grid[0], grid[1] if axes > 1 else 1, 1)
            if self.launcher is not None:
                made = self.launcher.settled(grid, (*first, *self.rest))
        if made is None or made.passed is not self.passed:
            pairs = zip(first, self.describe, strict=True)
            described = [it if make is None or it is None else make(it) for it, make in pairs]
            known.launch(grid, device, (*described, *self.rest))
            return True
        given: list[Any] = []
        for it, encoder in zip(first, self.encoders, strict=True):
            if it is None or it.__class__ is int:
                given.append(it)
            elif encoder is None:
                given.append(it.data_ptr())
            else:
                given += encoder.known.get(it.data_ptr()) or encoder(it)
        stream = _driver.active.get_current_stream(device)
        made.inner(*(made.grid or grid), stream, *made.kernel, None, None, None, *given, *self.rest, *made.added)
        return True


Describe = Callable[[Any], Any]
"""Makes the descriptor of a tensor."""


class _Encoder:
    """The encodings of one argument by the address of its tensor. encode: None: Triton's launcher does it."""

    __slots__ = ("describe", "encode", "known")

    def __init__(self, describe: Describe, encode: Callable[[Any], Sequence[Any]] | None) -> None:
        self.describe, self.encode = describe, encode
        self.known: dict[int, Sequence[Any]] = {}

    def __call__(self, tensor: Any) -> Sequence[Any]:
        """Encodes the descriptor of a tensor, and keeps that."""
        if self.encode is None:
            return (self.describe(tensor),)
        if len(self.known) >= _MOST_KNOWN:
            self.known.clear()
        found = self.known[tensor.data_ptr()] = self.encode(self.describe(tensor))
        return found


def _key(function: Any, device: int, specialization: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """All that decides which kernel a launch gets. options: keyword arguments that are no parameters of the kernel."""
    if "plan" in options:
        options = {**options, "plan": _plan(options["plan"])}
    # The types are in the key because True == 1, but only 1 is a depth.
    given = (*options.items(), *map(type, options.values()))
    return (device, _state(function), tuple(specialization), given)


def _state(function: Any) -> tuple[Any, ...]:
    """What a launch gets from around it: the request, and settings of Triton that are part of its key."""
    runtime: Any = knobs.runtime
    compilation: Any = knobs.compilation
    settings: Any = (function.debug or runtime.debug, compilation.instrumentation_mode)
    if _FPSAN:
        settings = (*settings, compilation.fpsan_homomorphic_casts)
    if _HOOK_IN_KEY and runtime.add_stages_inspection_hook is not None:
        settings = (*settings, runtime.add_stages_inspection_hook())
    return (surrounding_suffix(), settings)


def _plan(value: Any) -> Any:
    """A Plan in a key: it does not change, and takes long to hash."""
    return id(value) if type(value) is Plan else value


def _hashable(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options with text in place of what may change, such as a Plan that is a dict."""
    return {name: repr(it) if isinstance(it, dict | list | set) else it for name, it in options.items()}
