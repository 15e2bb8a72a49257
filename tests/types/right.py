"""A user's program: type checkers find nothing in it, and it runs."""

from pathlib import Path

import jtorch
import jtorch.nn.functional as F
from jtorch import Tensor, nn, optim
from jtorch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Sequential(nn.ReLU(), nn.Linear(width, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(F.gelu(self.first(x))))


def accuracy(scores: Tensor, labels: Tensor) -> float:
    return (scores.argmax(1) == labels).float().mean().item()


jtorch.manual_seed(0)
model = Net()
optimizer = optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
scheduler = optim.lr_scheduler.StepLR(optimizer, 5)


@jtorch.compile
def step(x: Tensor, y: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


@jtorch.compile(fullgraph=True)
def predict(x: Tensor, temperature: float = 1.0) -> Tensor:
    with jtorch.no_grad():
        return (model(x) / temperature).softmax(dim=-1)


data = TensorDataset(jtorch.randn(64, 4), jtorch.randint(0, 3, (64,)))
losses: list[float] = []
for _ in range(2):
    for x, y in DataLoader(data, batch_size=16, shuffle=True):
        losses.append(step(x, y).item())
    scheduler.step()
print(losses[-1], accuracy(predict(data.tensors[0]), data.tensors[1]), step.stats(x, y))

a = jtorch.arange(10).view(2, 5).to(jtorch.float32)
b = a @ a.T + 2 * a.sum(1, keepdim=True) - a.mean()
values, indices = a.max(dim=1)
c: Tensor = jtorch.cat([a, b[:, :2], jtorch.zeros(2, 1, dtype=jtorch.float32)], dim=1)
shape: tuple[int, ...] = c.shape
rows, cols = c.shape
print(
    c[0, 1:3],
    c.numpy().sum(),
    values.tolist(),
    len(c),
    c.device,
    c.dtype,
    rows * cols,
    c.grad_fn,
    float(c[0, 0]),
)
file = Path("model.pt")
jtorch.save(model.state_dict(), file)
model.load_state_dict(jtorch.load(file))
x = jtorch.ones(3, requires_grad=True)
(g,) = jtorch.autograd.grad((x * x).sum(), x, create_graph=True)
grads = jtorch.func.vmap(jtorch.func.grad(lambda p: (p * p).sum()))(a)
with jtorch.autocast("cpu", dtype=jtorch.bfloat16):
    half = model(a[:, :4])
if (half > 0).any():
    print("some")


class Trainer:
    def __init__(self) -> None:
        self.model = nn.Linear(2, 2)

    @jtorch.compile
    def scores(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.model(x) * scale

    @jtorch.compile(dynamic=True)
    def both(self, x: Tensor) -> tuple[Tensor, int]:
        return self.model(x), 3


trainer = Trainer()
trainer.scores(jtorch.ones(2, 2), scale=0.5).sum().backward()
scores, count = trainer.both(jtorch.ones(4, 2))
print(scores.mean() + count.real, trainer.scores.explain())
net = jtorch.compile(nn.Linear(2, 3))
net(jtorch.ones(1, 2)).sum().backward()
print(net.weight.shape, jtorch.zeros(2, 3), jtorch.zeros((2, 3)), jtorch.zeros(size=(2, 3)))
print(jtorch.randint(3, (2,), dtype=jtorch.int64), jtorch.randint(0, 3, (2,)), jtorch.rand(3).uniform_(-1, 1))
