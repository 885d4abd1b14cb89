"""The packages of the corpus. To add one: a module here with a `PACKAGE`, and its name below."""

from __future__ import annotations

from bench.corpus.entry import Entry, Package
from bench.corpus.packages import (
    conch,
    fbgemm,
    flag_gems,
    flash_linear_attention,
    gemlite,
    inductor,
    liger_kernel,
    lightllm,
    lmdeploy,
    mamba_ssm,
    mlstm_kernels,
    sageattention,
    sglang,
    torchao,
    triton_tutorials,
    unsloth,
    vllm,
    xformers,
)

PACKAGES: tuple[Package, ...] = (
    triton_tutorials.PACKAGE,
    flash_linear_attention.PACKAGE,
    liger_kernel.PACKAGE,
    gemlite.PACKAGE,
    conch.PACKAGE,
    sageattention.PACKAGE,
    mlstm_kernels.PACKAGE,
    mamba_ssm.PACKAGE,
    vllm.PACKAGE,
    lightllm.PACKAGE,
    sglang.PACKAGE,
    lmdeploy.PACKAGE,
    fbgemm.PACKAGE,
    torchao.PACKAGE,
    xformers.PACKAGE,
    unsloth.PACKAGE,
    flag_gems.PACKAGE,
    inductor.PACKAGE,
)


def find_entry(package: str, key: str) -> tuple[Package, Entry]:
    """An entry by its package's name and its key; raises KeyError if there is none."""
    for found in PACKAGES:
        for entry in found.entries:
            if (found.name, entry.key) == (package, key):
                return found, entry
    raise KeyError(f"{package}/{key}")
