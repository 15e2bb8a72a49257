"""LeNet-5 on MNIST where --data says it is, else on scikit-learn's digits, else on noise."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from start import arguments, initialise, show
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.norm = nn.BatchNorm2d(16)
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(16 * 5 * 5, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
            nn.Linear(84, 10),
        )  # fmt: skip

    def forward(self, x):
        x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(F.relu(self.norm(self.conv2(x))), 2)
        return F.log_softmax(self.classifier(x), dim=1)


def mnist(folder):
    from torchvision import datasets, transforms

    scale = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    data = datasets.MNIST(folder, train=True, transform=scale)
    images = torch.stack([data[k][0] for k in range(256)])
    return images.double(), torch.tensor([data[k][1] for k in range(256)])


def digits():
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        rng = np.random.default_rng(0)
        return torch.from_numpy(rng.random((256, 1, 28, 28))), torch.from_numpy(rng.integers(0, 10, 256))
    images, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(images[:256] / 16.0).view(-1, 1, 8, 8)
    return F.interpolate(images, size=(28, 28), mode="nearest"), torch.from_numpy(labels[:256]).long()


def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in loader:
            found = model(images).argmax(dim=1, keepdim=True)
            right += found.eq(labels.view_as(found)).sum().item()
    return right / len(loader.dataset)


def main():
    args = arguments(data=None)
    images, labels = mnist(args.data) if args.data else digits()
    loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=False, drop_last=True)
    model = initialise(LeNet(), args.init)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    scheduler = StepLR(optimizer, step_size=2, gamma=0.5)
    batches = iter(loader)
    for _ in range(args.steps):
        try:
            image, label = next(batches)
        except StopIteration:
            batches = iter(loader)
            image, label = next(batches)
        model.train()
        optimizer.zero_grad()
        loss = F.nll_loss(model(image), label)
        loss.backward()
        optimizer.step()
        scheduler.step()
        show(loss)
    show(evaluate(model, loader))


if __name__ == "__main__":
    main()
