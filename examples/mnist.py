"""Train a small network on MNIST: the usual training loop, eager or compiled.

    python examples/mnist.py --data DIR --model mlp --epochs 3
    python examples/mnist.py --data DIR --model mlp --epochs 3 --compile

The whole step (zero_grad, forward, loss, backward, optimizer) is one function; --compile puts
``jtorch.compile`` around it and changes nothing else. DIR holds the four MNIST files (raw or .gz);
--download fetches those that are absent.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.utils.data import DataLoader, Dataset, Subset, TensorDataset
from jtorch.vision.datasets import MNIST


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),  # (N, 1, 28, 28) -> (N, 784)
        nn.Linear(784, 80),
        nn.ReLU(),
        nn.Linear(80, 10),
    )


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),  # (N, 6, 28, 28)
        nn.ReLU(),
        nn.MaxPool2d(2),  # (N, 6, 14, 14)
        nn.Conv2d(6, 16, 5),  # (N, 16, 10, 10)
        nn.ReLU(),
        nn.MaxPool2d(2),  # (N, 16, 5, 5)
        nn.Flatten(),  # (N, 400)
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


MODELS = {"mlp": mlp, "lenet": lenet}
MEAN, STD = 0.1307, 0.3081  # of the training pixels, scaled to [0, 1]


def dataset(args: argparse.Namespace, train: bool) -> TensorDataset:
    """Normalised images (N, 1, 28, 28) float32 and classes (N,) int64, in memory."""
    mnist = MNIST(args.data, train=train, download=args.download)
    images = (mnist.data.float() / 255 - MEAN) / STD
    return TensorDataset(images.unsqueeze(1), mnist.targets)


def progress(batches: Iterable, text: str) -> Iterable:
    """``batches`` with a progress bar, where tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return batches
    return tqdm(batches, desc=text, leave=False, disable=None)  # None: no bar unless on a terminal


def train(step: Callable, loader: DataLoader, device: str, text: str) -> tuple[list[jtorch.Tensor], float]:
    """One epoch: (the loss of each step, seconds spent in steps; loading is not counted)."""
    losses, seconds = [], 0.0
    for x, y in progress(loader, text):
        x, y = x.to(device), y.to(device)
        begin = time.perf_counter()
        loss = step(x, y)
        seconds += time.perf_counter() - begin
        losses.append(loss.detach())
    return losses, seconds


@jtorch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: str) -> tuple[float, float]:
    """(accuracy, mean loss) on a dataset."""
    model.eval()
    right, loss, count = 0, 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        scores = model(x)
        right += (scores.argmax(1) == y).sum().item()
        loss += F.cross_entropy(scores, y, reduction="sum").item()
        count += len(y)
    model.train()
    return right / count, loss / count


def main(argv: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with the MNIST files")
    parser.add_argument("--download", action="store_true", help="fetch files that are absent")
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--gamma", type=float, default=0.3, help="what lr is multiplied with per epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=str(jtorch.get_default_device()))
    parser.add_argument("--compile", action="store_true", help="compile the training step")
    parser.add_argument("--max-steps", type=int, help="stop each epoch early, for a quick look")
    parser.add_argument("--losses", help="write the loss of each of the first 100 steps to this file")
    args = parser.parse_args(argv)

    jtorch.manual_seed(args.seed)
    training: Dataset = dataset(args, train=True)
    testing = dataset(args, train=False)
    if args.max_steps is not None:
        training = Subset(training, range(args.max_steps * args.batch_size))
    loader = DataLoader(training, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(testing, batch_size=1000)
    model = MODELS[args.model]().to(args.device)
    optimizer = jtorch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = jtorch.optim.lr_scheduler.ExponentialLR(optimizer, args.gamma)

    def step(x: jtorch.Tensor, y: jtorch.Tensor) -> jtorch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if args.compile:
        step = jtorch.compile(step)

    accuracy = 0.0
    first_losses: list[jtorch.Tensor] = []
    for epoch in range(1, args.epochs + 1):
        losses, seconds = train(step, loader, args.device, f"epoch {epoch}/{args.epochs}")
        first_losses += losses[: 100 - len(first_losses)]
        schedule.step()
        accuracy, test_loss = evaluate(model, test_loader, args.device)
        print(
            f"epoch {epoch}: loss {sum(loss.item() for loss in losses) / len(losses):.4f}, "
            f"test loss {test_loss:.4f}, test accuracy {100 * accuracy:.2f} %, "
            f"{len(losses) / seconds:.0f} steps/s ({seconds:.2f} s in {len(losses)} steps)"
        )
    if args.losses:
        lines = (repr(loss.item()) + "\n" for loss in first_losses)
        Path(args.losses).write_text("".join(lines))
    return accuracy


if __name__ == "__main__":
    main()
