"""vLLM: attention over a paged cache, quantised GEMMs, mixtures of experts, LoRA, and recurrent layers."""

from __future__ import annotations

from bench.corpus.entry import Package
from bench.corpus.packages.vllm import attention, experts, gemm, recurrent
from bench.corpus.packages.vllm.modules import VLLM

PACKAGE = Package(
    name="vllm",
    home="https://github.com/vllm-project/vllm",
    licence="Apache-2.0",
    requires=(),
    sources=("vllm==0.33.0",),
    module="vllm.v1.attention.ops.triton_prefill_attention",
    partial=VLLM,
    entries=(*attention.ENTRIES, *gemm.ENTRIES, *experts.ENTRIES, *recurrent.ENTRIES),
    notes="Only the modules with the kernels are imported; the platform is answered as compute capability 9.0.",
)
