"""Attention from PyTorch: `tawa.ops.attention` in place of `scaled_dot_product_attention`, checked and timed.

python examples/attention.py                needs a Hopper GPU and PyTorch
make demo                                   needs neither: compiles, proves and simulates attention
"""

from __future__ import annotations

B, H, HK, S, D = 2, 16, 4, 4096, 128


def main() -> None:
    """Compares outputs, gradients and times of a causal call with PyTorch's."""
    from hopper import check_errors, median_us, torch_on_hopper

    torch = torch_on_hopper("Without them: make demo compiles, proves and simulates attention.")
    from tawa.ops import attention

    torch.manual_seed(0)
    # Projections come as (B, S, H, D); their views are used where they lie.
    q, k, v = (
        torch.randn((B, S, heads, D), device="cuda", dtype=torch.float16).transpose(1, 2).requires_grad_()
        for heads in (H, HK, HK)
    )
    do = torch.randn_like(q)

    def ours(q, k, v):
        return attention(q, k, v, causal=True)

    def theirs(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def with_gradients(function, tensors):
        o = function(*tensors)
        return o, *torch.autograd.grad(o, tensors, do.to(o.dtype))

    exact = with_gradients(theirs, [x.detach().double().requires_grad_() for x in (q, k, v)])
    found, peer = (with_gradients(function, (q, k, v)) for function in (ours, theirs))
    check_errors(("o", "dq", "dk", "dv"), found, peer, exact)

    flops = 4 * B * H * S * S * D / 2  # half the pairs are masked
    calls = {"Tawa": lambda: ours(q, k, v), "PyTorch": lambda: theirs(q, k, v)}
    for name, time_us in median_us(calls).items():
        print(f"{name:>8}: {flops / time_us * 1e-6:6.0f} TFLOP/s forward")


if __name__ == "__main__":
    main()
