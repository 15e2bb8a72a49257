"""Polynomial regression with a loop by hand: no module, no optimizer."""

import math

import torch
from start import arguments, show

args = arguments()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.linspace(-math.pi, math.pi, 200, device=device)
y = torch.sin(x)
powers = torch.stack([x**k for k in range(4)], dim=-1)
weight = torch.tensor([0.1, -0.2, 0.05, 0.01], requires_grad=True, device=device)
velocity = torch.zeros_like(weight)
rate = 1e-6

for _ in range(args.steps):
    prediction = powers @ weight
    loss = (prediction - y).pow(2).sum()
    show(loss)
    loss.backward()
    with torch.no_grad():
        velocity.mul_(0.5).add_(weight.grad)
        weight -= rate * velocity
        weight.grad.zero_()

# the same once more through torch.autograd.grad, with a second derivative
loss = (powers @ weight - y).pow(2).mean()
(slope,) = torch.autograd.grad(loss, weight, create_graph=True)
(curvature,) = torch.autograd.grad(slope.norm(), weight)
show(curvature.abs().sum())
