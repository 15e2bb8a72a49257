"""Data-parallel training as PyTorch's tutorials write it: knows nothing of jtorch."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as default
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 - as everybody writes it
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class MyTrainDataset(Dataset):
    def __init__(self, size):
        self.size = size
        generator = torch.Generator().manual_seed(0)
        weights = torch.rand(20, generator=generator)
        inputs = [torch.rand(20, generator=generator) for _ in range(size)]
        self.data = [(x, (x @ weights).reshape(1)) for x in inputs]

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.data[index]


class Trainer:
    def __init__(self, model, train_data, optimizer, save_every, snapshot_path):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.global_rank = int(os.environ["RANK"])
        self.model = model.to("cpu")
        self.train_data = train_data
        self.optimizer = optimizer
        self.save_every = save_every
        self.epochs_run = 0
        self.snapshot_path = snapshot_path
        if os.path.exists(snapshot_path):  # noqa: PTH110 - as scripts do
            self._load_snapshot(snapshot_path)
        self.model = DDP(self.model)
        self.model.register_comm_hook(state=None, hook=default.fp16_compress_hook)

    def _load_snapshot(self, snapshot_path):
        snapshot = torch.load(snapshot_path, map_location="cpu")
        self.model.load_state_dict(snapshot["MODEL_STATE"])
        self.epochs_run = snapshot["EPOCHS_RUN"]
        print(f"Resuming training from snapshot at Epoch {self.epochs_run}")

    def _run_epoch(self, epoch):
        self.train_data.sampler.set_epoch(epoch)
        total = torch.zeros(2)
        for source, targets in self.train_data:
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(source), targets)
            loss.backward()
            self.optimizer.step()
            total += torch.tensor([loss.item() * len(source), len(source)])
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        return (total[0] / total[1]).item()

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            loss = self._run_epoch(epoch)
            if self.local_rank == 0:
                print(f"Epoch {epoch} | Steps: {len(self.train_data)} | loss {loss:.4f}")
            if self.global_rank == 0 and epoch % self.save_every == 0:
                snapshot = {"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch}
                torch.save(snapshot, self.snapshot_path)
            dist.barrier()
            if epoch == 3 and self.global_rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                raise ValueError("rank 1 fails once")
        return loss


def main(epochs, batch_size):
    init_process_group(backend="gloo", init_method="env://")
    torch.manual_seed(0)
    dataset, model = MyTrainDataset(512), nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=batch_size, pin_memory=True, shuffle=False,
                        sampler=sampler, num_workers=1)  # fmt: skip
    loss = Trainer(model, loader, optimizer, 2, "snapshot.pt").train(epochs)
    assert loss < 0.02, loss
    destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="simple distributed training job")
    parser.add_argument("total_epochs", type=int)
    parser.add_argument("--batch_size", default=32, type=int)
    args = parser.parse_args()
    main(args.total_epochs, args.batch_size)
