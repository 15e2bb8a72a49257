"""A GPT of nanoGPT's shape: learned positions, pre-norm blocks, tied embeddings, AdamW with two groups."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from start import arguments, initialise, show
from torch.nn import functional as F


@dataclass
class Config:
    vocabulary: int = 17
    length: int = 12
    layers: int = 2
    heads: int = 3
    width: int = 24
    dropout: float = 0.0


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.c_attn = nn.Linear(config.width, 3 * config.width, bias=False)
        self.c_proj = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)
        mask = torch.tril(torch.ones(config.length, config.length))
        self.register_buffer("bias", mask.view(1, 1, config.length, config.length), persistent=False)
        self.flash = hasattr(F, "scaled_dot_product_attention")

    def forward(self, x, by_hand=False):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        if self.flash and not by_hand:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=True)
        else:
            weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            weights = weights.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(weights, dim=-1) @ v
        return self.dropout(self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C)))


class Block(nn.Module):
    def __init__(self, config, by_hand):
        super().__init__()
        self.by_hand = by_hand
        self.ln_1, self.ln_2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width, bias=False)
        self.attn = Attention(config)
        self.mlp = nn.ModuleDict(
            {
                "c_fc": nn.Linear(config.width, 4 * config.width),
                "c_proj": nn.Linear(4 * config.width, config.width),
            }
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x), self.by_hand)
        return x + self.mlp.c_proj(F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.length, config.width)
        self.h = nn.ModuleList([Block(config, by_hand=k % 2 == 1) for k in range(config.layers)])
        self.ln_f = nn.LayerNorm(config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, tokens, targets=None):
        position = torch.arange(0, tokens.size(1), dtype=torch.long, device=tokens.device)
        x = self.wte(tokens) + self.wpe(position)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        flat = logits.view(-1, logits.size(-1))
        return logits, None if targets is None else F.cross_entropy(flat, targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, tokens, count):
        for _ in range(count):
            logits, _ = self(tokens[:, -self.config.length :])
            kept, _ = torch.topk(logits[:, -1], 3)
            logits = torch.where(logits[:, -1] < kept[:, [-1]], -float("inf"), logits[:, -1])
            tokens = torch.cat((tokens, logits.argmax(-1, keepdim=True)), dim=1)
        return tokens


def main():
    args = arguments()
    config = Config()
    model = initialise(GPT(config), args.init)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    data = torch.arange(400) ** 2 % 17
    context = torch.autocast("cpu", dtype=torch.bfloat16, enabled=False)
    for step in range(args.steps):
        first = [(step * 31 + 13 * b) % 380 for b in range(4)]
        x = torch.stack([data[k : k + config.length] for k in first])
        y = torch.stack([data[k + 1 : k + 1 + config.length] for k in first])
        with context:
            _, loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        show(loss)
    show(model.generate(data[:4][None], 10).sum())


if __name__ == "__main__":
    main()
