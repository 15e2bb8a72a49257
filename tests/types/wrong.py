"""A user's mistakes: type checkers find each of the lines that say so, and no other. It is never run."""

import jtorch
from jtorch import Tensor, nn


@jtorch.compile
def step(x: Tensor, y: Tensor) -> Tensor:
    return x + y


class Trainer:
    def __init__(self) -> None:
        self.model = nn.Linear(2, 2)

    @jtorch.compile
    def scores(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.model(x) * scale


a, trainer = jtorch.ones(2), Trainer()
jtorch.zeros(2, dtyp=jtorch.float32)  # wrong
jtorch.zeros("a")  # wrong
jtorch.randint(3)  # wrong
jtorch.catt([a, a])  # wrong
a.summ()  # wrong
a.softmax(dimension=1)  # wrong
a.backward(retain=True)  # wrong
number: int = a.sum()  # wrong
nn.Linear("a", 2)  # wrong
nn.Conv2d(1, 2)  # wrong
nn.Dropout("x")  # wrong
nn.CrossEntropyLoss(reducton="mean")  # wrong
nn.functional.relu(a, inplce=True)  # wrong
jtorch.optim.SGD([a], learning_rate=0.1)  # wrong
step(1, 2, 3)  # wrong
step(a)  # wrong
step(a, a)
step(a, a).nothing()  # wrong
trainer.scores(a)
trainer.scores(a, "x")  # wrong
trainer.scores()  # wrong
jtorch.compile(step, fulgraph=True)  # wrong
jtorch.compile(fullgraph=1)  # wrong
