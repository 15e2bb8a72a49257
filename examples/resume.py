"""Train LeNet on MNIST with a Trainer: stop it, kill it, start it again, and it ends with the same bits.

    python examples/resume.py --data DIR --out runs/lenet --compile

Start it again after Ctrl-C, or after ``kill -9``: it goes on from the last checkpoint in the folder of
``--out``. DIR holds the four MNIST files; without it the 1797 digits that come with scikit-learn are used.
"""

import argparse

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.training import CSVLogger, EarlyStopping, ModelCheckpoint, Trainer, seed_everything
from jtorch.utils.data import DataLoader, Subset, TensorDataset
from jtorch.vision.datasets import MNIST


class LeNet(nn.Module):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.layers = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),  # (N, 6, 28, 28)
            nn.ReLU(),
            nn.MaxPool2d(2),  # (N, 6, 14, 14)
            nn.Conv2d(6, 16, 5),  # (N, 16, 10, 10)
            nn.ReLU(),
            nn.MaxPool2d(2),  # (N, 16, 5, 5)
            nn.Flatten(),  # (N, 400)
            nn.Linear(400, 84),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(84, 10),
        )

    def training_step(self, batch: tuple[jtorch.Tensor, jtorch.Tensor]) -> jtorch.Tensor:
        x, y = batch
        return F.cross_entropy(self.layers(x), y)

    def validation_step(self, batch: tuple[jtorch.Tensor, jtorch.Tensor]) -> dict[str, jtorch.Tensor]:
        x, y = batch
        scores = self.layers(x)
        right = (scores.argmax(1) == y).float().mean()
        return {"val_loss": F.cross_entropy(scores, y), "val_accuracy": right}

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = jtorch.optim.Adam(self.parameters(), lr=self.lr)
        return [optimizer], [jtorch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)]


def mnist(folder: str) -> tuple[TensorDataset, TensorDataset]:
    """Images (N, 1, 28, 28) and classes (N,): to train with, to test with."""
    parts = [MNIST(folder, train=train) for train in (True, False)]
    train, test = (TensorDataset((part.data.float() / 255).unsqueeze(1), part.targets) for part in parts)
    return train, test


def digits() -> tuple[TensorDataset, TensorDataset]:
    """The same of the 8x8 digits of scikit-learn, thrice as large and with a border."""
    from sklearn.datasets import load_digits

    found = load_digits()
    small = jtorch.tensor(found.images, dtype=jtorch.float32).unsqueeze(1) / 16  # (1797, 1, 8, 8)
    images = F.pad(F.interpolate(small, scale_factor=3), (2, 2, 2, 2))  # (1797, 1, 28, 28)
    classes = jtorch.tensor(found.target)
    return TensorDataset(images[:1500], classes[:1500]), TensorDataset(images[1500:], classes[1500:])


def main(argv: list[str] | None = None) -> Trainer:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with the MNIST files")
    parser.add_argument("--out", required=True, help="folder for checkpoints and metrics.csv")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--items", type=int, help="train with so many only, for a quick look")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="compile the training step")
    args = parser.parse_args(argv)

    seed_everything(args.seed)
    train, test = mnist(args.data) if args.data else digits()
    training = train if args.items is None else Subset(train, range(args.items))
    checkpoint = ModelCheckpoint(f"{args.out}/checkpoints", every_n_train_steps=100, monitor="val_loss")
    trainer = Trainer(
        max_epochs=args.epochs,
        compile=args.compile,
        gradient_clip_val=1.0,
        logger=CSVLogger(args.out),
        callbacks=[EarlyStopping("val_loss", patience=3), checkpoint],
    )
    trainer.fit(
        LeNet(args.lr),
        DataLoader(training, batch_size=args.batch_size, shuffle=True),
        DataLoader(test, batch_size=500),
        ckpt_path="last",
    )
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in trainer.callback_metrics.items())
    print(f"{'stopped' if trainer.interrupted else 'done'} after {trainer.global_step} steps: {metrics}")
    print(f"best: {checkpoint.best_model_path or 'none yet'}")
    return trainer


if __name__ == "__main__":
    main()
