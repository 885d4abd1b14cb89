"""Launches with arguments that the user does not pass, or with a choice between two kernels.

A kernel whose pointer loads were promoted to TMA (`tawa.transforms.ttir.promote_to_tma`, ``make="host"``) takes
descriptors after its own arguments; a kernel whose programs share a CTA (`tawa.transforms.ttir.group_programs`) and a
persistent one (`tawa.transforms.ttir.make_persistent`) take sizes of their grid; one whose programs take tiles from a
counter (`tawa.transforms.ttir.dynamic_tiles`) takes its address. While Tawa is attached, Triton makes a
`LaunchedKernel` in place of its `CompiledKernel`. For such a kernel its `Launcher` (`tawa.bridge.launch.launcher`)
makes these arguments, or launches another form or the stock kernel instead.

This works only for launches through `CompiledKernel.run`. Code that compiles a kernel and launches the cubin by itself
(ahead-of-time tools) would not pass added arguments. They are therefore added only where a `JITFunction`, or Inductor
in this process, compiles for a launch of its own (`launch_is_ours`), and that is part of the key on disk. Elsewhere the
kernel makes its descriptors in scratch memory. Triton gets that from an allocator that few users set; the host's
allocator is used then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from copy import copy
from dataclasses import fields, replace
from functools import cache, partial
from threading import RLock
from typing import Any, cast

from tawa.bridge.driver.annotations import STOCK_WITHOUT
from tawa.bridge.driver.request import Request, activate, surrounding_request
from tawa.bridge.gluon.verdicts import judge
from tawa.bridge.launch.descriptors import EncodingLauncher, encoded_signature, encoded_types, encoder, encoding
from tawa.bridge.launch.first.clock import beside_captures
from tawa.bridge.launch.first.compiles import at_once, launched_by_us, may_be_one
from tawa.bridge.launch.first.elsewhere import is_cached, job_of, make
from tawa.bridge.launch.first.rounding import other_rounding
from tawa.bridge.launch.first.stock_first import StockFirst
from tawa.bridge.launch.forecasts import Forecasts, forecasts_of
from tawa.bridge.launch.host import NO_HOST
from tawa.bridge.launch.launcher import Launcher
from tawa.bridge.launch.stock_facts import facts_of
from tawa.bridge.launch.why_stock import note_surrounding
from tawa.bridge.report import record
from tawa.bridge.triton.artifacts.ptxas_log import kept_log
from tawa.bridge.triton.device import whole_options
from tawa.dialects.parameters import GRID_SIZE, PROGRAMS, SEMAPHORES, TILE_COUNTER, WORKSPACE
from tawa.outside import read
from tawa.plan import Plan, PlanOptions
from tawa.plan.cost.programs import ProgramFacts
from tawa.plan.option_conflicts import check_agreement
from tawa.symbolic.host.expr import Choice
from tawa.symbolic.host.launch_spec import LaunchSpec

_log = logging.getLogger("tawa")

Attached = Callable[[], AbstractContextManager[None]]


def launch_spec(kernel: Any) -> LaunchSpec:
    """What a launch of a compiled kernel needs; an empty spec for most."""
    known = getattr(kernel.metadata, record.KEY, None) or {}
    return LaunchSpec.from_json(known["launch"]) if known.get("launch") else LaunchSpec()


def known_without(kernel: Any) -> dict[Choice, Plan]:
    """The Plans for launches of a compiled kernel that violate what only one decision needs (`plans_without`)."""
    known = getattr(kernel.metadata, record.KEY, None) or {}
    return {it: Plan.of(plan) for it, plan in ((known.get("launch") or {}).get("without") or {}).items()}


_loading = [RLock()]


def _forked() -> None:
    _loading[0] = RLock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_forked)


@cache
def kernel_class(base: type, attached: Attached) -> type:
    """A subclass of Triton's `CompiledKernel` that launches kernels with a launch spec by a `Launcher`.

    base: `CompiledKernel`, imported by the caller: Triton need not be installed. attached: the context in which Tawa
    takes part in compiles, for a launch that compiles another form of the kernel long afterwards.
    """

    class LaunchedKernel(base):
        """A compiled kernel. Without a launch spec it behaves as Triton's own; its descriptors are encoded once."""

        has_own_launch = False
        encodes = False
        """Whether the descriptors of its launches are encoded by us, and kept."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            note_surrounding(self)  # first: the recorder, whose wrapper is in `base`, reads it
            super().__init__(*args, **kwargs)
            judge(self, surrounding_request())
            known = getattr(self.metadata, record.KEY, None) or {}
            if known.get("launch") or known.get("tuning"):
                request = surrounding_request()
                self.tawa_host = request.host if request is not None else NO_HOST
                choices = self.tawa_host.choices
                self.tawa_choices = choices(self) if choices is not None and known.get("tuning") else None
                self.has_own_launch = bool(known.get("launch")) or self.tawa_choices is not None
            self.encodes = encoding(*self._descriptors()) is not None

        def _descriptors(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            """The types of the user's arguments, and Triton's metadata of the descriptors among them."""
            known = tuple(getattr(self.metadata, "tensordesc_meta", None) or ())
            types = tuple((getattr(self.src, "signature", None) or {}).values())
            return types, known[: len(known) - len(launch_spec(self).descriptors)]

        @property
        def _cubin_path(self) -> str:
            """The file that Inductor's own launcher loads. That launcher would not pass the added arguments."""
            if self.has_own_launch:
                raise NotImplementedError("Tawa makes arguments of this kernel at each launch")
            try:
                return self.__dict__["_cubin_path"]
            except KeyError:
                raise AttributeError("_cubin_path") from None

        @_cubin_path.setter
        def _cubin_path(self, path: str) -> None:
            self.__dict__["_cubin_path"] = path

        def _init_handles(self) -> None:
            if self.module is not None and self._run is not None:  # Triton asks at every launch
                return
            if not (self.has_own_launch or self.encodes):
                super()._init_handles()
                return
            with _loading[0]:  # a second thread that launches waits until the first has loaded the kernel
                if self.module is None:
                    self._load()

        def build(self) -> None:
            """Builds Triton's launcher, for which a compiler of C may take half a second; makes no CUDA call."""
            from triton.runtime import driver

            twin, active = self._twin()[0], cast(Any, driver.active)
            with suppress(Exception):  # the launch that needs it meets the same error
                active.launcher_cls(twin.src, twin.metadata)

        def _twin(self) -> tuple[Any, LaunchSpec, Any]:
            """A copy that declares all arguments, what its launches need, and how they pass the user's descriptors."""
            # Triton's launcher would encode each descriptor that its metadata lists anew at every launch.
            spec, (types, own) = launch_spec(self), self._descriptors()
            passed = encoding(types, own)
            twin = copy(self)
            twin.src = Extended(self.src, spec, passed is not None)
            twin.metadata = self.metadata._replace(tensordesc_meta=own if passed is None else ())
            return twin, spec, passed

        def _load(self) -> None:
            """Lets Triton load a copy that declares all arguments, and takes over its handles; the launcher last."""
            twin, spec, passed = self._twin()
            run: Any = None
            try:
                super(LaunchedKernel, twin)._init_handles()
                if self.has_own_launch or passed is None:
                    run = self._launcher(twin._run, spec, passed)
                else:
                    run = EncodingLauncher(passed, twin._run)
            except BaseException:
                run = twin._run  # Triton left a launcher there that raises the error again
                raise
            finally:
                found = vars(twin).copy()
                twin.module = None  # else both would unload it
                for name in found.keys() - {"src", "metadata", "_run"}:
                    setattr(self, name, found[name])
                self._run = run

        def _launcher(self, inner: Any, spec: LaunchSpec, passed: Any) -> Launcher | StockFirst:
            """inner: Triton's launcher of the copy."""
            if (getattr(self.metadata, record.KEY).get("launch") or {}).get("stock_first"):
                own = inner if passed is None else EncodingLauncher(passed, inner)
                elsewhere, here = partial(learning_kernel, self, attached), partial(known_kernel, self, attached)
                load = partial(_following, _Loaded(self, own), attached)
                is_known = self.tawa_choices is not None and self.tawa_choices.known
                return StockFirst(self, own, elsewhere, load, here, is_known)
            added = self.metadata.tensordesc_meta[-len(spec.descriptors) :] if spec.descriptors else ()
            own = inner if passed is None else EncodingLauncher(passed, inner)
            # What is not specialised is the stock kernel already.
            applied = getattr(self.metadata, record.KEY)["applied"]
            stock = (lambda: _loaded(_stock(self, attached))) if applied else lambda: _Loaded(self, own)
            by_plan, processors = partial(_by_plan, self, attached, ready=_loaded), multiprocessors()
            return Launcher(
                self, inner, spec, encoder(added), stock, processors, self.tawa_host, self.tawa_choices, by_plan,
                passed, forecasts_of(self, processors), known_without(self),
            )  # fmt: skip

    return LaunchedKernel


class Extended:
    """An `ASTSource` whose signature has the added arguments, encoded. Triton makes the launcher from it.

    encoded: whether the descriptors of the user's are encoded, too.
    """

    def __init__(self, source: Any, spec: LaunchSpec, encoded: bool = False) -> None:
        self._source = source
        added: dict[str, str] = {}
        for number, descriptor in enumerate(spec.descriptors):
            added |= encoded_types(f"tawa_desc_{number}", len(descriptor.block))
        added |= {PROGRAMS: "i32"} if spec.grouped else {}
        added |= {f"{GRID_SIZE}{axis}": "i32" for axis in range(spec.axes)}
        added |= {TILE_COUNTER: "*i32"} if spec.counter else {}
        added |= {WORKSPACE: "*fp32", SEMAPHORES: "*i32"} if spec.shared is not None else {}
        own = encoded_signature(source.signature) if encoded else source.signature
        self.signature = {**own, **added}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class _Loaded:
    """A kernel as Triton launches it. compiled: the `LaunchedKernel`. run: the launcher of it."""

    def __init__(self, kernel: Any, run: Callable[..., None]) -> None:
        self.compiled, self.run = kernel, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)


def explaining_launcher(
    kernel: Any, processors: int, attached: Attached, forecasts: Forecasts | None = None
) -> Launcher:
    """The launcher of a compiled kernel that is not loaded: it chooses for launches, and makes none.

    processors: SMs. forecasts: of the kernel, which learn what the launcher compiles.
    """

    def stock() -> Any:
        try:
            return _Loaded(_stock(kernel, attached), _no_launch)
        except Exception as error:  # nothing is known of a stock kernel that cannot be compiled
            return error

    def by_plan(plan: Plan) -> Any:
        made = _by_plan(kernel, attached, plan)
        if isinstance(made, str) or not made.has_own_launch:
            return made if isinstance(made, str) else _Loaded(made, _no_launch)
        return _Loaded(made, explaining_launcher(made, processors, attached, forecasts_of(made, processors)))

    return Launcher(
        kernel, _no_launch, launch_spec(kernel), lambda *_: (), stock, processors,
        choices=getattr(kernel, "tawa_choices", None), compile_plan=by_plan,
        forecasts=forecasts, without=known_without(kernel),
    )  # fmt: skip


def _no_launch(*_: Any) -> None:
    raise AssertionError("this kernel was compiled to be explained, not to be launched")


def _stock(kernel: Any, attached: Attached) -> Any:
    """The kernel as stock Triton compiles it. What ptxas says of it is kept."""
    with kept_log() as log:
        made = compiled_by_stock(kernel, attached)
    if log.text:
        facts_of(made, log.text)
    return made


def stock_facts(kernel: Any, attached: Attached) -> ProgramFacts | None:
    """What is known of the kernel once stock Triton has compiled it; None if it cannot."""
    try:
        return facts_of(_stock(kernel, attached))
    except Exception:  # nothing is known of a stock kernel that cannot be compiled
        return None


def compiled_by_stock(kernel: Any, attached: Attached) -> Any:
    """The kernel as stock Triton compiles it, without ``tl.range(warp_specialize=True)``."""
    if _asked(kernel).get("annotated"):
        with attached(), activate(STOCK_WITHOUT), launched_by_us(False):
            return _compiled_again(kernel)
    with activate(None), launched_by_us(False):
        return _compiled_again(kernel)


def compiled_by_plan(
    kernel: Any, plan: Plan, attached: Attached, elsewhere: bool = False, only_cached: bool = False
) -> Any:
    """The kernel as a Plan has it. elsewhere: made by a worker process. only_cached: None if it was not made before.

    Raises what a compile with ``plan=`` raises.
    """
    known, asked = getattr(kernel.metadata, record.KEY), _asked(kernel)
    options = replace(read(PlanOptions, asked["options"]), mode=None, only_if_faster=None)
    pinned = Plan.from_data(asked["plan"]) if asked["plan"] is not None else Plan()
    if pinned.keeps_order:  # a Plan of a table, which may be another's, is no consent to another order of sums
        options = replace(options, precision=options.precision or "exact")
        check_agreement(options, plan)
    host = kernel.tawa_host
    request = Request(options, plan, host.reproducer_dir, known["verification"], host=host)
    return _compiled_for_launches(kernel, request, attached, elsewhere, only_cached)


def learning_kernel(kernel: Any, attached: Attached) -> Any:
    """The kernel that launches learn about where stock Triton's kernel is the first, made by a worker process."""
    return _judged(kernel, _compiled_for_launches(kernel, _learning_request(kernel), attached, elsewhere=True))


def known_kernel(kernel: Any, attached: Attached) -> Any:
    """As `learning_kernel`, but from Triton's cache, or compiled here if the user has measured it; else None."""
    only_cached = kernel.tawa_choices is None or not kernel.tawa_choices.tuned
    made = _compiled_for_launches(kernel, _learning_request(kernel), attached, only_cached=only_cached)
    return _judged(kernel, made) if made is not None else None


def _judged(stock: Any, made: Any) -> Any:
    """Notes on a kernel where it rounds otherwise than stock Triton's: `tawa_rounds_otherwise`, "" if nowhere."""
    made.tawa_rounds_otherwise = "an unknown place"
    if "ttgir" in stock.asm and "ttgir" in made.asm:
        made.tawa_rounds_otherwise = other_rounding(stock.asm["ttgir"], made.asm["ttgir"])
    return made


def _with_stocks_bits(stock: Any, make: Callable[..., Any], plan: Plan, only_cached: bool) -> Any:
    """Makes a form; returns a text, the reason, if launches must not learn about it: its results would differ."""
    made = make(plan, only_cached=only_cached)
    if made is None or isinstance(made, str) or not _judged(stock, made).tawa_rounds_otherwise:
        return made
    reason = f"it rounds otherwise than stock Triton's kernel at {made.tawa_rounds_otherwise}"
    _log.info("%s: a form is left out: %s", stock.name, reason)
    return reason


def _learning_request(kernel: Any) -> Request:
    known, asked, host = getattr(kernel.metadata, record.KEY), _asked(kernel), kernel.tawa_host
    plan = Plan.from_data(asked["plan"]) if asked["plan"] is not None else None
    options = read(PlanOptions, asked["options"])
    request = at_once(Request(options, plan, host.reproducer_dir, known["verification"], host=host))
    return replace(request, learns=True)


def _following(stock: _Loaded, attached: Attached, kernel: Any) -> Any:
    """The kernel, loaded, to follow stock Triton's; None if nothing else can be launched, which is no error."""
    loaded = _loaded_if_possible(kernel)
    if isinstance(loaded, str) or not isinstance(loaded._run, Launcher):
        return None
    if not getattr(kernel.metadata, record.KEY)["applied"] and loaded._run.forecasts is None:
        return None
    make = partial(_with_stocks_bits, stock, partial(_by_plan, kernel, attached, elsewhere=True))
    loaded._run.follow(stock, make, _loaded_if_possible, not kernel.tawa_rounds_otherwise)
    return loaded


def _loaded_if_possible(kernel: Any) -> Any:
    """The kernel, loaded; a text if CUDA refuses it."""
    try:
        with beside_captures():
            return _loaded(kernel)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        _log.info("%s: it is not used: %s", kernel.name, reason)
        return reason


def _by_plan(
    kernel: Any, attached: Attached, plan: Plan, ready: Callable[[Any], Any] = lambda kernel: kernel,
    elsewhere: bool = False, only_cached: bool = False,
) -> Any:  # fmt: skip
    """Makes the kernel as a Plan has it. A text is the reason that it cannot be made.

    ready: what else is done with it. elsewhere, only_cached: as in `compiled_by_plan`. It never raises: an error of the
    compiler must not be an error of the launch.
    """
    try:
        return ready(compiled_by_plan(kernel, plan, attached, elsewhere, only_cached))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        _log.info("%s: a Plan is left out: %s", kernel.name, reason)
        return reason


def _asked(kernel: Any) -> dict[str, Any]:
    """How a kernel was asked for: its launch options, Tawa's options."""
    known = getattr(kernel.metadata, record.KEY)
    return known.get("launch") or known["tuning"]


def options_of(kernel: Any) -> dict[str, Any]:
    """Triton's launch options that a kernel was asked for with."""
    metadata = kernel.metadata
    names = [name for name in _option_names(metadata) if hasattr(metadata, name)]
    options = {name: _tuples(getattr(metadata, name)) for name in names}
    return {**options, "num_warps": _asked(kernel)["num_warps"]}


def _loaded(kernel: Any) -> Any:
    kernel._init_handles()
    return kernel


def _compiled_for_launches(
    kernel: Any, request: Request, attached: Attached, elsewhere: bool = False, only_cached: bool = False
) -> Any:
    """Compiles the kernel again as a request asks for it, for launches that may get added arguments.

    elsewhere: a worker process compiles it, and it is read from Triton's cache. only_cached: None if it is not there.
    """
    function = getattr(kernel.src, "fn", None)
    with attached(), activate(request), launched_by_us(function=function):
        if elsewhere or only_cached:
            job = job_of(kernel, options_of(kernel), may_be_one(), request)
            if only_cached and not is_cached(job):
                return None
            make(job)
        made = _compiled_again(kernel)
    if elsewhere:
        made.build()
    return made


def _compiled_again(kernel: Any) -> Any:
    """Compiles the kernel again, under the request that is active now."""
    import triton

    return triton.compile(kernel.src, target=kernel.metadata.target, options=options_of(kernel))


def _option_names(metadata: Any) -> list[str]:
    from triton.compiler.compiler import make_backend

    options: Any = make_backend(metadata.target).parse_options(whole_options({}))
    return [field.name for field in fields(options)]


def _tuples(value: Any) -> Any:
    """Turns the lists of JSON back into tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def multiprocessors() -> int:
    """SMs of the GPU that is in use."""
    from triton.runtime import driver

    active: Any = driver.active
    return active.utils.get_device_properties(active.get_current_device())["multiprocessor_count"]
