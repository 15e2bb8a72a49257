"""einops' functions and layers, and vision transformers in the style they are written with, compiled.

Run by ``python -m jtorch.as_torch``: what is ``torch`` here is jtorch. Raises AssertionError, with the name
of the case, where compiled differs from eager or is recorded more than once.
"""

import copy
from math import ceil

import torch
import torch.nn.functional as F
from einops import einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

FUNCTIONS = {
    "split": lambda x: rearrange(x, "b (h w) c -> b h w c", h=2),
    "merge": lambda x: rearrange(x, "b n c -> (b n) c") * 2,
    "transpose": lambda x: rearrange(x, "b n c -> c n b").contiguous(),
    "unit": lambda x: rearrange(x, "b n c -> b 1 n 1 c").exp(),
    "ellipsis": lambda x: rearrange(x, "b ... -> ... b") * 3,
    "list": lambda x: rearrange([x, x * 2, x + 1], "k b n c -> b (k n) c"),
    "mean": lambda x: reduce(x, "b (h w) c -> b w", "mean", h=2),
    "sum": lambda x: reduce(x, "b n c -> () n ()", "sum"),
    "max": lambda x: reduce(x, "b n c -> b c", "max"),
    "min": lambda x: reduce(x, "b n c -> n", "min"),
    "prod": lambda x: reduce(x, "b n c -> b", "prod"),
    "callable": lambda x: reduce(x, "b n c -> b n", lambda y, axes: y.exp().sum(axes).log()),
    "logsumexp": lambda x: x - reduce(x.exp(), "b n c -> b n 1", "sum").log(),
    "repeat": lambda x: repeat(x, "b n c -> b (n r) c k", r=2, k=3),
    "repeat_new_front": lambda x: repeat(x.sum(1), "b c -> s b c", s=2) * 1.5,
    "einsum": lambda x: einsum(x, x, "b i c, b j c -> b i j"),
    "einsum_of_three": lambda x: einsum(x, x, x, "b i c, b j c, b j d -> b i d"),
    "pack": lambda x: pack([x, x.mean(1), x[:, :2]], "b * c")[0],
    "unpack": lambda x: unpack(x, [[2], [2, 2]], "b * c")[1] * 2,
    "pack_and_back": lambda x: sum(part.sum() for part in unpack(*pack([x, x[:, 0]], "b * c"), "b * c")),
    "parse_shape": lambda x: x * parse_shape(x, "b _ c")["c"],
    "of_integers": lambda x: x + repeat(torch.arange(x.shape[1]), "n -> b n c", b=2, c=5),
    "of_masks": lambda x: x.masked_fill(rearrange(x[..., 0] > 0, "b n -> b n 1"), 0.0),
}
LAYERS = {
    "Rearrange": lambda: nn.Sequential(Rearrange("b (h w) c -> b c h w", h=2), nn.Conv2d(5, 3, 2)),
    "Reduce": lambda: nn.Sequential(nn.Linear(5, 4), Reduce("b (h w) c -> b w c", "max", h=2)),
    "Reduce_mean": lambda: nn.Sequential(nn.Linear(5, 4), Reduce("b n c -> b c", "mean"), nn.GELU()),
    "EinMix": lambda: EinMix("b n c -> b m c", weight_shape="n m c", bias_shape="m c", n=6, m=3, c=5),
    "EinMix_in_parts": lambda: EinMix(
        "b (h w) c -> b h (w d)", weight_shape="h c d", bias_shape="d", h=2, w=3, c=5, d=4
    ),
}


def pair(t):
    return t if isinstance(t, tuple) else (t, t)


def exists(value):
    return value is not None


def default(value, other):
    return value if exists(value) else other


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(dim),
            nn.Linear(dim, hidden_dim),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_dim, dim),
            nn.Dropout(dropout),
        )

    def forward(self, x):
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=8, dropout=0.0, context_dim=None):
        super().__init__()
        inner_dim = dim_head * heads
        project_out = not (heads == 1 and dim_head == dim)
        self.heads = heads
        self.scale = dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.attend = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(dropout)
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(default(context_dim, dim), inner_dim * 2, bias=False)
        self.to_out = (
            nn.Sequential(nn.Linear(inner_dim, dim), nn.Dropout(dropout)) if project_out else nn.Identity()
        )

    def forward(self, x, context=None, mask=None):
        x = self.norm(x)
        q, (k, v) = self.to_q(x), self.to_kv(default(context, x)).chunk(2, dim=-1)
        q, k, v = map(lambda t: rearrange(t, "b n (h d) -> b h n d", h=self.heads), (q, k, v))  # noqa: C417
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        if exists(mask):
            mask = rearrange(mask, "b j -> b 1 1 j")
            dots = dots.masked_fill(~mask, -torch.finfo(dots.dtype).max)
        attn = self.dropout(self.attend(dots))
        out = einsum(attn, v, "b h i j, b h j d -> b h i d")
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))


class Transformer(nn.Module):
    def __init__(self, dim, depth, dropout=0.0):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            layer = [Attention(dim, dropout=dropout), FeedForward(dim, dim * 2, dropout)]
            self.layers.append(nn.ModuleList(layer))

    def forward(self, x):
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.norm(x)


class ViT(nn.Module):
    def __init__(self, *, image_size=8, patch_size=4, num_classes=3, dim=16, depth=2, pool="cls"):
        super().__init__()
        image_height, image_width = pair(image_size)
        patch_height, patch_width = pair(patch_size)
        num_patches = (image_height // patch_height) * (image_width // patch_width)
        patch_dim = 3 * patch_height * patch_width
        self.to_patch_embedding = nn.Sequential(
            Rearrange("b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=patch_height, p2=patch_width),
            nn.LayerNorm(patch_dim),
            nn.Linear(patch_dim, dim),
            nn.LayerNorm(dim),
        )
        self.pos_embedding = nn.Parameter(torch.randn(1, num_patches + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.dropout = nn.Dropout(0.1)
        self.transformer = Transformer(dim, depth, 0.1)
        self.pool = pool
        self.to_latent = nn.Identity()
        self.mlp_head = nn.Linear(dim, num_classes)

    def forward(self, img):
        x = self.to_patch_embedding(img)
        b, n, _ = x.shape
        cls_tokens = repeat(self.cls_token, "1 1 d -> b 1 d", b=b)
        x = torch.cat((cls_tokens, x), dim=1)
        x += self.pos_embedding[:, : (n + 1)]
        x = self.transformer(self.dropout(x))
        x = x.mean(dim=1) if self.pool == "mean" else x[:, 0]
        return self.mlp_head(self.to_latent(x))


def posemb_sincos_2d(h, w, dim, temperature: int = 10000, dtype=torch.float32):
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    omega = torch.arange(dim // 4) / (dim // 4 - 1)
    omega = 1.0 / (temperature**omega)
    y = y.flatten()[:, None] * omega[None, :]
    x = x.flatten()[:, None] * omega[None, :]
    return torch.cat((x.sin(), x.cos(), y.sin(), y.cos()), dim=1).type(dtype)


class SimpleViT(nn.Module):
    def __init__(self, patch_size=4, dim=16):
        super().__init__()
        self.to_patch_embedding = nn.Sequential(
            Rearrange("b c (h p1) (w p2) -> b h w (p1 p2 c)", p1=patch_size, p2=patch_size),
            nn.Linear(3 * patch_size * patch_size, dim),
        )
        self.register_buffer("pos_embedding", posemb_sincos_2d(2, 2, dim), persistent=False)
        self.transformer = Transformer(dim, 1)
        self.linear_head = nn.Linear(dim, 3)

    def forward(self, img):
        device = img.device
        x = self.to_patch_embedding(img)
        x = rearrange(x, "b ... d -> b (...) d")
        x += self.pos_embedding.to(device, dtype=x.dtype)
        return self.linear_head(self.transformer(x).mean(dim=1))


class PreNormResidual(PreNorm):
    def forward(self, x):
        return self.fn(self.norm(x)) + x


def MLPMixer(dim=16, patch_size=4, num_patches=4):  # noqa: N802
    def mixing(dim, dense):
        return nn.Sequential(dense(dim, dim * 2), nn.GELU(), dense(dim * 2, dim), nn.Dropout(0.1))

    return nn.Sequential(
        Rearrange("b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=patch_size, p2=patch_size),
        nn.Linear(patch_size**2 * 3, dim),
        *[
            nn.Sequential(
                PreNormResidual(dim, mixing(num_patches, lambda i, o: nn.Conv1d(i, o, kernel_size=1))),
                PreNormResidual(dim, mixing(dim, nn.Linear)),
            )
            for _ in range(2)
        ],
        nn.LayerNorm(dim),
        Reduce("b n c -> b c", "mean"),
        nn.Linear(dim, 3),
    )


class CrossEmbed(nn.Module):
    def __init__(self, dim_in=3, dim_out=16, kernel_sizes=(2, 4)):
        super().__init__()
        dims = [ceil(dim_out / len(kernel_sizes))] * len(kernel_sizes)
        self.convs = nn.ModuleList(
            [
                nn.Conv2d(dim_in, d, k, stride=2, padding=(k - 2) // 2)
                for k, d in zip(kernel_sizes, dims, strict=True)
            ]
        )

    def forward(self, x):
        return torch.cat(tuple(map(lambda conv: conv(x), self.convs)), dim=1)  # noqa: C417


class WindowAttention(nn.Module):
    def __init__(self, dim, window=2, heads=2, dim_head=8):
        super().__init__()
        self.heads, self.window, self.scale = heads, window, dim_head**-0.5
        self.to_qkv = nn.Conv2d(dim, heads * dim_head * 3, 1, bias=False)
        self.to_out = nn.Conv2d(heads * dim_head, dim, 1)
        self.rel_pos_bias = nn.Embedding((2 * window - 1) ** 2, heads)
        pos = torch.arange(window)
        grid = torch.stack(torch.meshgrid(pos, pos, indexing="ij"))
        grid = rearrange(grid, "c i j -> (i j) c")
        rel_pos = rearrange(grid, "i ... -> i 1 ...") - rearrange(grid, "j ... -> 1 j ...") + window - 1
        indices = (rel_pos * torch.tensor([2 * window - 1, 1])).sum(dim=-1)
        self.register_buffer("rel_pos_indices", indices, persistent=False)

    def forward(self, x):
        *_, height, width = x.shape
        h, wsz = self.heads, self.window
        x = rearrange(x, "b d (h s1) (w s2) -> (b h w) d s1 s2", s1=wsz, s2=wsz)
        q, k, v = self.to_qkv(x).chunk(3, dim=1)
        q, k, v = map(lambda t: rearrange(t, "b (h d) x y -> b h (x y) d", h=h), (q, k, v))  # noqa: C417
        sim = torch.einsum("b h i d, b h j d -> b h i j", q * self.scale, k)
        sim = sim + rearrange(self.rel_pos_bias(self.rel_pos_indices), "i j h -> h i j")
        out = torch.einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v)
        out = rearrange(out, "b h (x y) d -> b (h d) x y", x=wsz, y=wsz)
        out = self.to_out(out)
        return rearrange(out, "(b h w) d s1 s2 -> b d (h s1) (w s2)", h=height // wsz, w=width // wsz)


class CrossFormer(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embed, self.attend = CrossEmbed(dim_out=dim), WindowAttention(dim)
        self.to_logits = nn.Sequential(Reduce("b c h w -> b c", "mean"), nn.Linear(dim, 3))

    def forward(self, x):
        x = self.embed(x)
        return self.to_logits(self.attend(x) + x)


class Perceiver(nn.Module):
    def __init__(self, dim=16, num_latents=5):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim))
        self.cross = Attention(dim, heads=1, dim_head=dim, context_dim=3)
        self.layers = nn.ModuleList([nn.ModuleList([Attention(dim), FeedForward(dim, 32)])])
        self.to_logits = nn.Sequential(Reduce("b n d -> b d", "mean"), nn.LayerNorm(dim), nn.Linear(dim, 3))

    def forward(self, data, mask=None):
        b, *_axis, _, device = *data.shape, data.device
        data, _ps = pack([data], "b c *")
        data = rearrange(data, "b c n -> b n c")
        x = repeat(self.latents.to(device), "n d -> b n d", b=b)
        x = self.cross(x, context=data, mask=mask) + x
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.to_logits(x)


MODELS = {
    "ViT": ViT,
    "ViT_mean": lambda: ViT(pool="mean"),
    "SimpleViT": SimpleViT,
    "MLPMixer": MLPMixer,
    "CrossFormer": CrossFormer,
    "Perceiver": Perceiver,
}


def check(name, got, expected):
    assert type(got) is type(expected), name
    if isinstance(got, torch.Tensor):
        assert got.shape == expected.shape and got.dtype == expected.dtype, name
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5, msg=name)
    else:
        assert got == expected, (name, got, expected)


def once(name, compiled):
    assert sum(map(len, compiled.plans.values())) == 1, f"{name}: {compiled.retraces}"


def function_case(name, function):
    """Forward and gradient, backward outside, over three inputs."""
    compiled = torch.compile(lambda x: function(x * 2), mode="interpret")
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(2, 6, 5).requires_grad_()
        y = x.detach().clone().requires_grad_()
        got, expected = compiled(x), function(y * 2)
        check(name, got, expected)
        (got * got).sum().backward()
        (expected * expected).sum().backward()
        check(name, x.grad, y.grad)
    once(name, compiled)


def module_case(name, model, shape):
    """Forward and parameters' gradients; then whole training steps, with dropout."""
    twin = copy.deepcopy(model)
    forward = torch.compile(lambda x: model(x))
    for seed in range(2):
        torch.manual_seed(seed)
        x = torch.randn(*shape)
        torch.manual_seed(7)
        got = forward(x)
        torch.manual_seed(7)
        expected = twin(x)
        check(name, got, expected)
        for out, net in ((got, model), (expected, twin)):
            net.zero_grad()
            (out * out).mean().backward()
        for (key, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
            check(f"{name}.{key}", p.grad, q.grad)
    once(name, forward)

    def step_of(net, optimizer):
        def step(x, y):
            optimizer.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            return loss.item()

        return step

    optimizers = [torch.optim.Adam(net.parameters(), lr=1e-3) for net in (model, twin)]
    step, plain = torch.compile(step_of(model, optimizers[0])), step_of(twin, optimizers[1])
    rows = forward(torch.randn(*shape)).numel() // got.shape[-1]
    for seed in range(4):
        torch.manual_seed(seed)
        x, y = torch.randn(*shape), torch.randint(got.shape[-1], (rows,))
        torch.manual_seed(9)
        a = step(x, y)
        torch.manual_seed(9)
        b = plain(x, y)
        assert abs(a - b) < 1e-4 * max(1.0, abs(b)), (name, seed, a, b)
    once(name, step)


for name, function in FUNCTIONS.items():
    function_case(name, function)
for name, make in LAYERS.items():
    torch.manual_seed(0)
    module_case(name, make(), (2, 6, 5))
for name, make in MODELS.items():
    torch.manual_seed(0)
    module_case(name, make(), (2, 3, 8, 8))
print(f"{len(FUNCTIONS)} functions, {len(LAYERS)} layers, {len(MODELS)} models")
