"""A bottleneck block of ResNet-50 by `tawa.ops.conv2d` and by PyTorch, checked and timed.

python examples/resnet_block.py             needs a Hopper GPU and PyTorch
make demo                                   needs neither: compiles, proves and simulates other kernels
"""

from __future__ import annotations

N, SIZE = 128, 56
# Filters (CO, C, K, K), with batch normalisation folded into the biases.
SHAPES = ((64, 256, 1, 1), (64, 64, 3, 3), (256, 64, 1, 1))


def main() -> None:
    """Compares outputs, gradients and times of a block with PyTorch's."""
    from hopper import check_errors, median_us, torch_on_hopper

    torch = torch_on_hopper("Without them: make demo compiles, proves and simulates kernels.")
    from tawa.ops import conv2d

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True

    def normal(*shape, scale=1.0):
        made = scale * torch.randn(shape, device="cuda")
        made = made.to(memory_format=torch.channels_last) if len(shape) == 4 else made
        return made.half().requires_grad_()

    x = normal(N, 256, SIZE, SIZE)
    weights = [normal(*shape, scale=(shape[1] * shape[2] ** 2) ** -0.5) for shape in SHAPES]
    biases = [normal(shape[0]) for shape in SHAPES]
    tensors = [x, *weights, *biases]

    def ours(x, w1, w2, w3, b1, b2, b3):
        inner = conv2d(x, w1, b1, relu=True)
        inner = conv2d(inner, w2, b2, padding=1, relu=True)
        return (conv2d(inner, w3, b3) + x).relu()

    def theirs(x, w1, w2, w3, b1, b2, b3):
        function = torch.nn.functional.conv2d
        inner = function(x, w1, b1).relu()
        inner = function(inner, w2, b2, padding=1).relu()
        return (function(inner, w3, b3) + x).relu()

    def with_gradients(function, tensors, gradient):
        o = function(*tensors)
        return o, *torch.autograd.grad(o, tensors, gradient.to(o.dtype))

    gradient = torch.randn_like(x)
    some = slice(0, 8)  # float64 takes its time
    part = [x[some].detach().requires_grad_(), *tensors[1:]]
    exact = with_gradients(theirs, [it.detach().double().requires_grad_() for it in part], gradient[some])
    found, peer = (with_gradients(function, part, gradient[some]) for function in (ours, theirs))
    names = ("o", "dx", "dw1", "dw2", "dw3", "db1", "db2", "db3")
    check_errors(names, found, peer, exact)

    calls = {"Tawa": lambda: ours(*tensors), "PyTorch": lambda: theirs(*tensors)}
    for name, time_us in median_us(calls).items():
        print(f"{name:>8}: {time_us:6.0f} us forward")


if __name__ == "__main__":
    main()
