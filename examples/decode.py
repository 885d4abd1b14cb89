"""Generating with a cache of keys and values: `tawa.ops.attention_decode`, checked and timed.

python examples/decode.py                   needs a Hopper GPU and PyTorch
"""

from __future__ import annotations

B, H, HK, D = 8, 32, 8, 128
PAGE, PAGES = 64, 64  # keys of a page, and the most pages of a sequence
STEPS = 4


def main() -> None:
    """Appends a few tokens to sequences of different lengths, and compares each step with PyTorch in float64."""
    from hopper import torch_on_hopper

    torch = torch_on_hopper("Without them: make demo compiles, proves and simulates attention.")
    import triton

    from tawa.ops import attention_decode

    torch.manual_seed(0)
    make = {"device": "cuda", "dtype": torch.bfloat16}
    lengths = torch.randint(1, PAGE * PAGES - STEPS, (B,), device="cuda", dtype=torch.int32)
    # Pages of all sequences lie in one pool, in any order; the table says which page is whose.
    table = torch.randperm(B * PAGES, device="cuda").reshape(B, PAGES).to(torch.int32)
    pool = [torch.randn((B * PAGES, PAGE, HK, D), **make).transpose(1, 2) for _ in "kv"]

    for step in range(STEPS):
        q = torch.randn((B, H, 1, D), **make)
        k, v = (torch.randn((B, HK, 1, D), **make) for _ in "kv")
        # Writes k and v behind the keys of each sequence, then attends to all of them.
        o = attention_decode(q, *pool, k=k, v=v, cache_seqlens=lengths, block_table=table)
        lengths += 1
        error = 0.0
        for b in range(B):
            keys, values = (
                x[table[b]].transpose(1, 2).reshape(PAGE * PAGES, HK, D)[: lengths[b]].transpose(0, 1).double()
                for x in pool
            )
            exact = torch.nn.functional.scaled_dot_product_attention(
                q[b].double()[None], keys[None], values[None], enable_gqa=True
            )
            error = max(error, (o[b].double() - exact[0]).abs().max().item())
        print(f"step {step}: largest error against float64 {error:.2e}")
        assert error < 1e-2

    def decode():
        return attention_decode(q, *pool, cache_seqlens=lengths, block_table=table)

    microseconds = 1e3 * triton.testing.do_bench_cudagraph(decode, return_mode="median")
    bytes = 2 * 2 * HK * D * int(lengths.sum())
    print(f"{microseconds:.1f} us for {int(lengths.sum())} keys: {bytes / microseconds * 1e-3:.0f} GB/s of K and V")


if __name__ == "__main__":
    main()
