"""Launches of a `triton.jit` function under `tawa.jit`: Tawa's options are taken out, and make the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from triton.runtime.jit import JITFunction

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.request import Request, activate, surrounding_request
from tawa.bridge.launch.known_launches import Describe, KnownLaunches, PreparedLaunch
from tawa.bridge.launch.why_stock import note_stock
from tawa.bridge.triton.artifacts.cache import warmup_suffix
from tawa.bridge.triton.artifacts.cache_entries import repaired
from tawa.bridge.triton.device import backend_option_names, missing_device
from tawa.bridge.triton.surroundings import surroundings_named
from tawa.runtime.decorated import refuse_outer_jit, tuned_launch
from tawa.runtime.requests import OPTION_NAMES, layered, make_request, reject_near_misses, set_log_level, take_options
from tawa.runtime.settings import Settings

_REQUEST_KEYWORD = "tawa_request"


class TawaFunction(JITFunction[Any]):
    """A `triton.jit` function under `tawa.jit`.

    Each launch takes Tawa's options out of the keyword arguments, makes them the active request, and passes the rest to
    Triton. An extra option carries the request into the key of Triton's cache in memory; `_pack_args` removes it again.
    """

    def __init__(self, fn: Callable[..., Any], defaults: Request, **triton_options: Any) -> None:
        super().__init__(fn, **triton_options)
        self.tawa_defaults = defaults
        self.last_kernel: Any = None
        self._own_options = OPTION_NAMES.difference(self.arg_names)
        self._requests: dict[Any, Request] = {}
        self._usual: tuple[Request | None, Request] | None = None
        self._known = KnownLaunches(self)

    def request_for(self, given: dict[str, Any]) -> Request:
        """The request of a launch with these options, in this context; raises PlanError on a bad option."""
        around = surrounding_request()
        if not given and self._usual is not None and self._usual[0] is around:
            return self._usual[1]
        # The types are in the key because True == 1, but only 1 is a depth.
        key = (tuple((name, type(value), _hashable(value)) for name, value in given.items()), around)
        try:
            request = self._requests[key]
        except (KeyError, TypeError):  # a new key, or an unhashable value, which is refused below
            settings = Settings.from_environment()
            set_log_level(settings)
            request = make_request(given, layered(self.tawa_defaults, around), settings)
            request = replace(request, host=replace(request.host, start="ready"))  # the user asked for this kernel
            self._requests[key] = request
        if not given:
            self._usual = (around, request)
        return request

    def __getitem__(self, grid: Any) -> Any:
        return partial(self.run, grid=grid, warmup=False)

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launches the kernel, or with `warmup` only compiles it, as `JITFunction.run`; also takes Tawa's options."""
        if warmup or self.pre_run_hooks:
            self.last_kernel = self._run_by_triton(args, grid, warmup, kwargs)
            return self.last_kernel
        kernel = self._known.launch(args, grid, kwargs) if self._known.known else None
        if kernel is None:
            kernel = self._run_by_triton(args, grid, False, dict(kwargs))
            self._known.add(args, kwargs, kernel)
        self.last_kernel = kernel
        return kernel

    def _run_by_triton(self, args: tuple[Any, ...], grid: Any, warmup: bool, kwargs: dict[str, Any]) -> Any:
        """As `run`: Triton finds the kernel, and compiles it if there is none."""
        request = self.request_for(take_options(kwargs, self._own_options))
        if not request.stock:
            kwargs[_REQUEST_KEYWORD] = request.cache_suffix() + warmup_suffix(warmup)
        with activate(request):
            try:
                kernel = super().run(*args, grid=grid, warmup=warmup, **kwargs)
            except (KeyError, RuntimeError) as error:
                known = {*self.arg_names, *backend_option_names(), _REQUEST_KEYWORD}
                reject_near_misses(kwargs, known)
                device_error = missing_device(error, self.__name__)
                if device_error is not None:
                    raise device_error from error
                raise
        note_stock(kernel, request)
        return kernel

    def prepared(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], describe: Sequence[Describe | None]
    ) -> PreparedLaunch | None:
        """Prepares launches like one that was made; see `KnownLaunches.prepared`."""
        return self._known.prepared(args, kwargs, describe)

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """As `JITFunction.add_pre_run_hook`: the hook sees only the arguments that the user passed."""
        super().add_pre_run_hook(_WithoutOurs(hook))

    @property
    def cache_key(self) -> str:
        """As `JITFunction.cache_key`; for the key of a stored tuning result, also with the request of the launch.

        The best configuration of stock kernels need not be the best of ours.
        """
        key = super().cache_key
        launch = tuned_launch()
        if launch is None:
            return key
        request = self.request_for(take_options(launch, self._own_options))
        return key if request.stock else key + request.cache_suffix()

    @property
    def __wrapped__(self) -> Any:
        """Does not exist. `triton.jit` over `tawa.jit` looks it up, and is refused here with a useful error."""
        refuse_outer_jit(self)
        raise AttributeError("__wrapped__")

    def preload(self, specialization_data: str) -> Any:
        """As `JITFunction.preload`, under the request of a launch without options."""
        request = self.request_for({})
        if not request.stock and request.cache_suffix() not in specialization_data:
            raise RuntimeError(f"{self.__name__}: the data to preload was written under other options or another Tawa")
        with activate(request):
            return super().preload(specialization_data)

    def _pack_args(
        self, backend: Any, kwargs: dict[str, Any], bound_args: Any, specialization: Any, options: Any
    ) -> Any:
        known = {name: value for name, value in kwargs.items() if name != _REQUEST_KEYWORD}
        return super()._pack_args(backend, known, bound_args, specialization, options)

    def _do_compile(self, *args: Any, **kwargs: Any) -> Any:
        with surroundings_named(self, launched=True), attached():
            return repaired(lambda: super(TawaFunction, self)._do_compile(*args, **kwargs))

    def __repr__(self) -> str:
        return f"TawaFunction({self.module}:{self.fn.__qualname__})"


def _hashable(value: Any) -> Any:
    """The value of an option in a key; a Plan may be a dict, which is not hashable."""
    return repr(value) if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True)
class _WithoutOurs:
    """A user's hook, called without Tawa's extra keyword."""

    hook: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.hook(*args, **{name: value for name, value in kwargs.items() if name != _REQUEST_KEYWORD})
