"""Sharded training as PyTorch's tutorials write it: knows nothing of jtorch."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    FullyShardedDataParallel as FSDP,  # noqa: N817 - of scripts that know both
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy  # noqa: F401


class Transformer(nn.Module):
    def __init__(self, vocabulary=17, width=16, layers=2):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        make = lambda: nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)  # noqa: E731
        self.layers = nn.ModuleList([make() for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))


class AppState(Stateful):
    """As in the recipe for distributed checkpoints."""

    def __init__(self, model, optimizer=None):
        self.model = model
        self.optimizer = optimizer

    def state_dict(self):
        model_state_dict, optimizer_state_dict = get_state_dict(self.model, self.optimizer)
        return {"model": model_state_dict, "optim": optimizer_state_dict}

    def load_state_dict(self, state_dict):
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optim"],
        )  # fmt: skip


def build():
    torch.manual_seed(0)
    model = Transformer()
    fsdp_kwargs = {"mp_policy": MixedPrecisionPolicy(), "offload_policy": CPUOffloadPolicy()}
    for layer in model.layers:
        fully_shard(layer, **fsdp_kwargs)
    fully_shard(model, **fsdp_kwargs)
    assert isinstance(model, Transformer) and isinstance(model, FSDPModule) and not isinstance(model, FSDP)
    for layer, following in zip(model.layers, model.layers[1:], strict=False):
        layer.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([layer])
    return model, torch.optim.Adam(model.parameters(), lr=1e-2)


def train(model, optim, steps):
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        x = torch.randint(0, 17, (4, 8), generator=generator)
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optim.step()
        optim.zero_grad()
    return loss.item()


def main(folder):
    dist.init_process_group(backend="gloo")
    model, optim = build()
    loss = train(model, optim, 40)
    assert loss < 1.0, loss
    dcp.save({"app": AppState(model, optim)}, checkpoint_id=folder)
    other, other_optim = build()
    dcp.load({"app": AppState(other, other_optim)}, checkpoint_id=folder)
    again, gone_on = train(other, other_optim, 3), train(model, optim, 3)
    assert again == gone_on, (again, gone_on)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        torch.save(full, os.path.join(folder, "model.pt"))  # noqa: PTH118 - as scripts do
        Transformer().load_state_dict(torch.load(os.path.join(folder, "model.pt")))  # noqa: PTH118
    try:
        FSDP(Transformer())
    except NotImplementedError as error:
        assert "see fully_shard" in str(error), error
    print(f"rank {dist.get_rank()}: all is well, loss {loss:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
