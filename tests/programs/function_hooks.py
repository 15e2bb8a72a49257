"""A custom autograd.Function with hooks on tensors and modules, and a checkpointed state dict."""

import io

import torch
from start import arguments, initialise, show
from torch import nn
from torch.autograd import Function


class Swish(Function):
    """x * sigmoid(x), its gradient written by hand."""

    @staticmethod
    def forward(ctx, x, slope):
        s = torch.sigmoid(slope * x)
        ctx.save_for_backward(x, s)
        ctx.slope = slope
        return x * s

    @staticmethod
    def backward(ctx, grad_output):
        x, s = ctx.saved_tensors
        return grad_output * (s + ctx.slope * x * s * (1 - s)), None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 12), nn.Linear(12, 3)
        self.slope = 1.5

    def forward(self, x):
        self.middle = Swish.apply(self.first(x), self.slope)
        if self.middle.requires_grad:
            self.middle.register_hook(lambda g: g.clamp(-0.02, 0.02))
        return self.second(self.middle)


def main():
    args = arguments()
    net = initialise(Net(), args.init)
    seen = []
    handle = net.first.register_forward_hook(
        lambda module, inputs, output: seen.append(output.abs().max().item())
    )
    net.second.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append(grad_output[0].pow(2).sum().item())
    )
    net.second.weight.register_hook(lambda g: g * 0.5)
    optimizer = torch.optim.Adagrad(net.parameters(), lr=0.1)
    x = torch.sin(torch.arange(40.0)).reshape(8, 5)
    y = torch.arange(8) % 3
    for _ in range(args.steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        show(loss)
    handle.remove()
    buffer = io.BytesIO()
    torch.save({"net": net.state_dict(), "steps": args.steps}, buffer)
    buffer.seek(0)
    again = Net()
    again.load_state_dict(torch.load(buffer)["net"])
    with torch.no_grad():
        show((again(x) - net(x)).abs().max())
    for value in seen:
        show(value)
    assert torch.autograd.gradcheck(lambda t: Swish.apply(t, 1.5), torch.randn(4, requires_grad=True))


if __name__ == "__main__":
    main()
