"""A character-level LSTM that learns one text by heart, then goes on from a few letters."""

import torch
from start import arguments, initialise, show
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog while the slow red hen sits under the old oak tree. " * 4


class CharRNN(nn.Module):
    def __init__(self, letters, size=24):
        super().__init__()
        self.embedding = nn.Embedding(letters, size)
        self.rnn = nn.LSTM(size, 32, num_layers=2, batch_first=True)
        self.cell = nn.GRUCell(32, 32)
        self.out = nn.Linear(32, letters)

    def forward(self, x, hidden=None):
        y, hidden = self.rnn(self.embedding(x), hidden)
        return self.out(y + self.cell(y[:, -1]).unsqueeze(1)), hidden


def generate(model, start, count):
    """The likeliest letters after ``start``, one at a time."""
    found, hidden, x = [], None, start[None]
    with torch.no_grad():
        for _ in range(count):
            scores, hidden = model(x, hidden)
            x = scores[:, -1].argmax(-1, keepdim=True)
            found.append(x.item())
    return found


def main():
    args = arguments()
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(c) for c in TEXT], dtype=torch.long)
    model = initialise(CharRNN(len(letters)), args.init)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss_of = nn.CrossEntropyLoss()
    batch, length = 4, 24
    hidden = None
    for step in range(args.steps):
        first = [(step * length + b * 90) % (len(data) - length - 1) for b in range(batch)]
        x = torch.stack([data[k : k + length] for k in first])
        y = torch.stack([data[k + 1 : k + length + 1] for k in first])
        scores, hidden = model(x, hidden)
        hidden = tuple(h.detach() for h in hidden)
        loss = loss_of(scores.reshape(-1, len(letters)), y.flatten())
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        show(loss)
    show(sum(k * letter for k, letter in enumerate(generate(model, data[:5], 8))))


if __name__ == "__main__":
    main()
