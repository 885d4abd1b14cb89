"""Tawa: unmodified `@triton.jit` kernels, warp-specialised for Hopper.

Importing this package imports neither Triton nor PyTorch: every name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa import ops, rings
    from tawa.bridge.launch.first.stock_first import warmup
    from tawa.errors import (
        AssumptionError,
        CompileError,
        DeviceError,
        EmitError,
        InternalError,
        KernelError,
        ParseError,
        PlanError,
        ProtocolError,
        ResourceError,
        SurroundingsError,
        TableError,
        TargetError,
        TawaError,
        UnsupportedKernel,
    )
    from tawa.mapping import Mapping
    from tawa.plan import PartitionPlan, Plan, PlanOptions, RingPlan
    from tawa.remarks import Remark, SourceLocation
    from tawa.runtime.config import Config
    from tawa.runtime.emitted import emit_gluon
    from tawa.runtime.explain.explaining import explain
    from tawa.runtime.explain.explanation import Explanation
    from tawa.runtime.history.recording import report
    from tawa.runtime.install import install, scope, uninstall, wait
    from tawa.runtime.jit import jit
    from tawa.runtime.protocol import assert_protocol, check_protocol
    from tawa.runtime.settings import Settings
    from tawa.runtime.simulation import simulate
    from tawa.runtime.tuning.store import use_table
    from tawa.verify.verdict import Checked, Proved, Refuted, Unknown

__version__ = "0.2.0"

_HOMES = {
    "jit": "tawa.runtime.jit",
    "Config": "tawa.runtime.config",
    "install": "tawa.runtime.install",
    "uninstall": "tawa.runtime.install",
    "scope": "tawa.runtime.install",
    "explain": "tawa.runtime.explain.explaining",
    "emit_gluon": "tawa.runtime.emitted",
    "report": "tawa.runtime.history.recording",
    "Explanation": "tawa.runtime.explain.explanation",
    "Settings": "tawa.runtime.settings",
    "simulate": "tawa.runtime.simulation",
    "check_protocol": "tawa.runtime.protocol",
    "assert_protocol": "tawa.runtime.protocol",
    "use_table": "tawa.runtime.tuning.store",
    "wait": "tawa.runtime.install",
    "warmup": "tawa.bridge.launch.first.stock_first",
    "Mapping": "tawa.mapping",
    "Plan": "tawa.plan",
    "PlanOptions": "tawa.plan",
    "PartitionPlan": "tawa.plan",
    "RingPlan": "tawa.plan",
    "Remark": "tawa.remarks",
    "SourceLocation": "tawa.remarks",
    "TawaError": "tawa.errors",
    "UnsupportedKernel": "tawa.errors",
    "PlanError": "tawa.errors",
    "ResourceError": "tawa.errors",
    "ProtocolError": "tawa.errors",
    "ParseError": "tawa.errors",
    "CompileError": "tawa.errors",
    "DeviceError": "tawa.errors",
    "InternalError": "tawa.errors",
    "KernelError": "tawa.errors",
    "SurroundingsError": "tawa.errors",
    "TableError": "tawa.errors",
    "TargetError": "tawa.errors",
    "EmitError": "tawa.errors",
    "AssumptionError": "tawa.errors",
    "Proved": "tawa.verify.verdict",
    "Checked": "tawa.verify.verdict",
    "Refuted": "tawa.verify.verdict",
    "Unknown": "tawa.verify.verdict",
    "ops": "tawa",
    "rings": "tawa",
}

__all__ = [
    "AssumptionError",
    "Checked",
    "CompileError",
    "Config",
    "DeviceError",
    "EmitError",
    "Explanation",
    "InternalError",
    "KernelError",
    "Mapping",
    "ParseError",
    "PartitionPlan",
    "Plan",
    "PlanError",
    "PlanOptions",
    "ProtocolError",
    "Proved",
    "Refuted",
    "Remark",
    "ResourceError",
    "RingPlan",
    "Settings",
    "SourceLocation",
    "SurroundingsError",
    "TableError",
    "TargetError",
    "TawaError",
    "Unknown",
    "UnsupportedKernel",
    "__version__",
    "assert_protocol",
    "check_protocol",
    "emit_gluon",
    "explain",
    "install",
    "jit",
    "ops",
    "report",
    "rings",
    "scope",
    "simulate",
    "uninstall",
    "use_table",
    "wait",
    "warmup",
]


if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'tawa' has no attribute {name!r}")
        found = importlib.import_module(f"tawa.{name}" if home == "tawa" else home)
        globals()[name] = value = found if home == "tawa" else getattr(found, name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
