"""Optimizers that a compiled function makes: their state is each call's own."""

from __future__ import annotations

import copy

import jtorch
from jtorch import nn, optim

OPTIMIZERS = [
    lambda p: optim.SGD(p, 0.1),
    lambda p: optim.SGD(p, 0.1, momentum=0.5, nesterov=True),
    lambda p: optim.Adam(p, 0.1, amsgrad=True),
    lambda p: optim.AdamW(p, 0.1),
    lambda p: optim.RMSprop(p, 0.1, momentum=0.5),
    lambda p: optim.Adagrad(p, 0.1),
    lambda p: optim.NAdam(p, 0.1),
    lambda p: optim.Adamax(p, 0.1),
]


def of_a_parameter(make, net, x):
    p = nn.Parameter(x * 1)
    optimizer = make([p])
    for _ in range(2):
        optimizer.zero_grad()
        (p * p * p).sum().backward()
        optimizer.step()
    return p.detach()


def of_a_parameter_outside(make, net, x):
    with jtorch.no_grad():
        net.weight.fill_(1.0)
    net.zero_grad()
    optimizer = make(net.parameters())
    net(x).pow(2).sum().backward()
    optimizer.step()
    return net.weight.detach().clone()


def test_each_call_begins_with_new_state():
    for program in (of_a_parameter, of_a_parameter_outside):
        for make in OPTIMIZERS:
            nets = [nn.Linear(2, 2, bias=False)]
            nets.append(copy.deepcopy(nets[0]))
            step = jtorch.compile(lambda x, make=make, program=program, net=nets[0]: program(make, net, x))
            for k in range(4):
                x = jtorch.tensor([1.0 + k, 2.0])
                right, found = program(make, nets[1], x), step(x)
                assert jtorch.allclose(found, right, rtol=1e-5, atol=1e-6), (
                    program.__name__,
                    make([right]),
                    k,
                )
