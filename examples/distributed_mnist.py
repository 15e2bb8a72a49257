"""Train LeNet on MNIST in several processes, each on its part of every batch.

    mpiexec -n 2 python examples/distributed_mnist.py --data DIR
    python -m jtorch.distributed.run --nproc-per-node 2 examples/distributed_mnist.py --data DIR --compile
    python examples/distributed_mnist.py --data DIR        # the same training in one process

--batch-size is that of all processes together, so the number of processes changes nothing but
rounding. --compile compiles the whole step, with the averaging of gradients. At the end a checksum
of the parameters is printed, which is the same in all processes. Without --data it trains on scikit-learn's
1,797 digits, drawn larger.
"""

import argparse
import hashlib
import time

import numpy as np

import jtorch
import jtorch.distributed as dist
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.nn.parallel import DistributedDataParallel
from jtorch.utils.data import DataLoader, DistributedSampler, TensorDataset
from jtorch.vision.datasets import MNIST


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),  # (N, 6, 14, 14)
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),  # (N, 16, 5, 5)
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def datasets(folder: str | None) -> tuple[TensorDataset, TensorDataset]:
    """(training, testing): images (N, 1, 28, 28) of mean 0 and variance 1, classes (N,)."""
    if folder is not None:
        parts = [MNIST(folder, train=train) for train in (True, False)]
        images, classes = [p.data.float() / 255 for p in parts], [p.targets for p in parts]
    else:
        from sklearn.datasets import load_digits

        digits = load_digits()
        pixels = np.kron(digits.images, np.ones((3, 3))).astype(np.float32) / 16  # (N, 24, 24)
        whole = jtorch.from_numpy(np.pad(pixels, ((0, 0), (2, 2), (2, 2))))
        targets = jtorch.from_numpy(digits.target).long()
        images, classes = [whole[300:], whole[:300]], [targets[300:], targets[:300]]
    mean, std = images[0].mean(), images[0].std()
    made = [TensorDataset(((x - mean) / std).unsqueeze(1), y) for x, y in zip(images, classes, strict=True)]
    return made[0], made[1]


@jtorch.no_grad()
def accuracy(model: nn.Module, testing: TensorDataset) -> float:
    """Of this process's part of the test images, added up over all processes."""
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = (t[rank::world] for t in testing.tensors)
    counts = jtorch.stack([(model(x).argmax(1) == y).sum(), jtorch.tensor(len(y))])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def checksum(model: nn.Module) -> str:
    """Of all bits of the parameters of this process. Raises RuntimeError where another process has others."""
    parameters = nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    mine = hashlib.sha256(parameters.tobytes()).hexdigest()[:16]
    everyone = [""] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    if len(set(everyone)) > 1:
        raise RuntimeError(f"the processes have different parameters: {everyone}")
    return mine


def main(argv: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with the MNIST files")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128, help="of all processes together")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--compile", action="store_true", help="compile the whole step")
    parser.add_argument("--deterministic", action="store_true", help="add gradients in the order of ranks")
    parser.add_argument("--save", metavar="FILE", help="write the trained network's state here")
    parser.add_argument("--max-steps", type=int, help="stop each epoch early, for a quick look")
    args = parser.parse_args(argv)

    dist.init_process_group("mpi")
    rank, world = dist.get_rank(), dist.get_world_size()
    jtorch.manual_seed(0)
    training, testing = datasets(args.data)
    network = lenet()
    model = DistributedDataParallel(network, deterministic=args.deterministic)
    optimizer = jtorch.optim.Adam(model.parameters(), lr=args.lr)
    sampler = DistributedSampler(training)
    loader = DataLoader(training, args.batch_size // world, sampler=sampler, drop_last=True)

    def step(x: jtorch.Tensor, y: jtorch.Tensor) -> jtorch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    take = jtorch.compile(step) if args.compile else step
    reached = 0.0
    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        total, count, seconds = jtorch.zeros(1), 0, 0.0
        for x, y in loader:
            begin = time.perf_counter()
            loss = take(x, y)
            seconds += time.perf_counter() - begin
            total += loss
            count += 1
            if count == args.max_steps:
                break
        dist.all_reduce(total, dist.ReduceOp.AVG)
        reached = accuracy(network, testing)
        if rank == 0:
            rate = count * len(x) * world / seconds
            print(
                f"epoch {epoch}: loss {total.item() / count:.4f}, test accuracy {100 * reached:.2f} %, "
                f"{rate:.0f} samples/s, processes: {world}, {seconds:.2f} s",
                flush=True,
            )
    found = checksum(model)
    if rank == 0:
        print(f"parameters of all processes: {found}", flush=True)
        if args.save:
            jtorch.save(network.state_dict(), args.save)
    dist.destroy_process_group()
    return reached


if __name__ == "__main__":
    main()
