"""A small mixture of experts by `tawa.ops.moe` and by a loop over experts in PyTorch, checked and timed.

python examples/moe.py                      needs a Hopper GPU and PyTorch
make demo                                   needs neither: compiles, proves and simulates other kernels
"""

from __future__ import annotations

TOKENS, CHOICES, EXPERTS, HIDDEN, INNER = 2048, 4, 16, 1024, 512


def main() -> None:
    """Compares outputs, gradients and times of a layer with PyTorch's."""
    from hopper import check_errors, median_us, torch_on_hopper

    torch = torch_on_hopper("Without them: make demo compiles, proves and simulates kernels.")
    from tawa.ops import moe

    torch.manual_seed(0)

    def normal(*shape, scale=1.0):
        return (scale * torch.randn(shape, device="cuda")).bfloat16().requires_grad_()

    x = normal(TOKENS, HIDDEN)
    gate_up, down = (
        normal(EXPERTS, 2 * INNER, HIDDEN, scale=HIDDEN**-0.5),
        normal(EXPERTS, HIDDEN, INNER, scale=INNER**-0.5),
    )
    router = torch.randn(EXPERTS, HIDDEN, device="cuda", dtype=torch.bfloat16)
    weights, experts = (x.detach() @ router.T).float().softmax(-1).topk(CHOICES)
    weights, experts = weights.requires_grad_(), experts.int()
    tensors = [x, gate_up, down, weights]

    def ours(x, gate_up, down, weights):
        return moe(x, gate_up, down, weights, experts)

    def theirs(x, gate_up, down, weights):
        out = torch.zeros_like(x)
        for expert in range(EXPERTS):
            token, which = (experts == expert).nonzero(as_tuple=True)
            gate, up = (x[token] @ gate_up[expert].mT).chunk(2, -1)
            made = (torch.nn.functional.silu(gate) * up) @ down[expert].mT
            out = out.index_add(0, token, made * weights[token, which].unsqueeze(-1).to(x.dtype))
        return out

    def with_gradients(function, tensors, gradient):
        o = function(*tensors)
        return o, *torch.autograd.grad(o, tensors, gradient.to(o.dtype))

    gradient = torch.randn_like(x)
    exact = with_gradients(theirs, [it.detach().double().requires_grad_() for it in tensors], gradient)
    found, peer = (with_gradients(function, tensors, gradient) for function in (ours, theirs))
    check_errors(("o", "dx", "dgate_up", "ddown", "dweights"), found, peer, exact)

    calls = {"Tawa": lambda: ours(*tensors), "PyTorch": lambda: theirs(*tensors)}
    for name, time_us in median_us(calls).items():
        print(f"{name:>8}: {time_us:6.0f} us forward")


if __name__ == "__main__":
    main()
