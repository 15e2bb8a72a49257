"""A variational autoencoder on noisy stripes; its draws come from NumPy, so any library sees the same."""

import numpy as np
import torch
from start import arguments, initialise, show
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, size=36, hidden=20, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, hidden), nn.LayerNorm(hidden), nn.SiLU())
        self.mean = nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ELU(), nn.Linear(hidden, size))

    def reparameterize(self, mean, log_variance, noise):
        return mean + noise * torch.exp(0.5 * log_variance)

    def forward(self, x, noise):
        h = self.encoder(x.view(-1, 36))
        mean, log_variance = self.mean(h), self.log_variance(h)
        return torch.sigmoid(self.decoder(self.reparameterize(mean, log_variance, noise))), mean, log_variance


def loss_function(reconstruction, x, mean, log_variance):
    entropy = F.binary_cross_entropy(reconstruction, x.view(-1, 36), reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    return entropy + divergence


def main():
    args = arguments()
    rng = np.random.default_rng(3)
    stripes = (np.arange(36) // 6 + rng.integers(0, 3, (64, 1))) % 3 == 0
    data = torch.from_numpy(np.where(rng.random((64, 36)) < 0.05, ~stripes, stripes).astype(np.float64))
    model = initialise(VAE(), args.init)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9, centered=True)
    for step in range(args.steps):
        batch = data[step % 4 :: 4].reshape(-1, 6, 6)
        noise = torch.as_tensor(rng.standard_normal((batch.size(0), 4)))
        optimizer.zero_grad(set_to_none=True)
        reconstruction, mean, log_variance = model(batch, noise)
        loss = loss_function(reconstruction, batch, mean, log_variance)
        loss.backward()
        optimizer.step()
        show(loss.item() / len(batch))
    with torch.no_grad():
        sample = torch.sigmoid(model.decoder(torch.from_numpy(rng.standard_normal((3, 4)))))
    show(sample.std(unbiased=True))


if __name__ == "__main__":
    main()
