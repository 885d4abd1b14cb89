"""The modules of vLLM that are executed, and what stands in for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from bench.corpus.partial_package import PartialPackage


class _Hopper:
    """The platform of vLLM. Whatever is not given is answered with no."""

    def __init__(self, **given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        found = self._given.get(name, False)
        return found if callable(found) else lambda *args, **kwargs: found


def _values() -> Mapping[str, Mapping[str, Any]]:
    import torch
    import triton
    import triton.language as tl

    platform = _Hopper(
        is_cuda=True,
        is_cuda_alike=True,
        is_device_capability=lambda wanted, device=0: wanted == 90,
        is_device_capability_family=lambda family: family == 90,
        has_device_capability=lambda least, device=0: least <= 90,
        get_device_capability=lambda device=0: SimpleNamespace(major=9, minor=0),
        get_device_name=lambda device=0: "NVIDIA H200",
        fp8_dtype=lambda: torch.float8_e4m3fn,
    )
    return {
        "vllm.triton_utils": {
            "triton": triton,
            "tl": tl,
            "HAS_TRITON": True,
            "use_tensor_descriptor": lambda override=None: bool(override),
        },
        "vllm.platforms": {"current_platform": platform},
        "vllm.envs": {
            "VLLM_BATCH_INVARIANT": False,
            "VLLM_TRITON_USE_TD": None,
            "VLLM_LORA_ENABLE_DUAL_STREAM": False,
        },
        "vllm.utils.platform_utils": {"num_compute_units": lambda device=0: 132},
        "vllm.utils.mem_utils": {"get_max_shared_memory_bytes": lambda device=0: 232448},
        "vllm.utils.torch_utils": {
            "direct_register_custom_op": lambda **about: None,
            "async_tensor_h2d": lambda data, device=None, dtype=None: torch.as_tensor(data, dtype=dtype).to(device),
        },
        "vllm.v1.attention.backends.utils": {"PAD_SLOT_ID": -1},
    }


VLLM = PartialPackage(
    "vllm",
    (
        "vllm.utils.math_utils",
        "vllm.triton_utils.allocation",
        "vllm.v1.attention.ops.triton_attention_helpers",
        "vllm.v1.attention.ops.triton_prefill_attention",
        "vllm.v1.attention.ops.triton_unified_attention",
        "vllm.v1.attention.ops.triton_decode_attention",
        "vllm.v1.attention.ops.prefix_prefill",
        "vllm.model_executor.determinism.batch_invariant",
        "vllm.model_executor.determinism.batch_invariant_configs",
        "vllm.model_executor.kernels.linear.mixed_precision.triton_w4a16",
        "vllm.model_executor.layers.quantization.awq_triton",
        "vllm.model_executor.layers.quantization.compressed_tensors.triton_scaled_mm",
        "vllm.model_executor.layers.quantization.utils.fp8_utils",
        "vllm.model_executor.layers.fused_moe.utils",
        "vllm.model_executor.layers.fused_moe.fused_moe",
        "vllm.model_executor.layers.fused_moe.experts.fused_batched_moe",
        "vllm.model_executor.layers.lightning_attn",
        "vllm.model_executor.layers.mamba.ops.*",
        "vllm.lora.ops.triton_ops.*",
    ),
    _values,
)


def op(module: str, name: str) -> Callable[..., Any]:
    """A function of a module of vLLM."""
    return getattr(VLLM.load(f"vllm.{module}"), name)
