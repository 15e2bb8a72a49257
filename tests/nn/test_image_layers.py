"""Convolution, pooling, normalisation, padding and upsampling layers against PyTorch, from the same
weights.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jtorch
from jtorch import nn

LINE, IMAGE, VOLUME = (2, 4, 9), (2, 4, 8, 6), (2, 4, 4, 4, 6)
BY_RANK = {1: LINE, 2: IMAGE, 3: VOLUME}
LAYERS = [
    *[
        (name.format(rank), args, options, shape)
        for rank, shape in BY_RANK.items()
        for name, args, options in [
            ("Conv{}d", (4, 6, 3), {}),
            ("Conv{}d", (4, 6, 3, 2, 1, 1, 2), {"bias": False}),
            ("Conv{}d", (4, 6, 3), {"padding": "same", "dilation": 1}),
            ("Conv{}d", (4, 6, 3), {"padding": 1, "padding_mode": "reflect"}),
            ("Conv{}d", (4, 6, 2), {"padding": "same", "padding_mode": "circular"}),
            ("Conv{}d", (4, 6, 3), {"padding": 2, "padding_mode": "replicate"}),
            ("ConvTranspose{}d", (4, 6, 3), {}),
            ("ConvTranspose{}d", (4, 6, 3, 2, 1, 1, 2, False, 2), {}),
            ("MaxPool{}d", (2,), {}),
            ("MaxPool{}d", (3, 2, 1), {"ceil_mode": True}),
            ("MaxPool{}d", (2,), {"return_indices": True}),
            ("AvgPool{}d", (2,), {}),
            ("AvgPool{}d", (3, 2, 1), {"count_include_pad": False, "ceil_mode": True}),
            ("LPPool{}d", (2, 2), {}),
            ("AdaptiveAvgPool{}d", (3,), {}),
            ("AdaptiveMaxPool{}d", (3,), {}),
            ("AdaptiveMaxPool{}d", (2,), {"return_indices": True}),
            ("BatchNorm{}d", (4,), {}),
            ("BatchNorm{}d", (4, 1e-3, None), {"affine": False}),
            ("BatchNorm{}d", (4,), {"track_running_stats": False}),
            ("BatchNorm{}d", (4,), {"bias": False}),
            ("InstanceNorm{}d", (4,), {}),
            ("InstanceNorm{}d", (4,), {"affine": True, "track_running_stats": True}),
            ("ConstantPad{}d", (1, 2.5), {}),
            ("ZeroPad{}d", (1,), {}),
            ("ReflectionPad{}d", (1,), {}),
            ("ReplicationPad{}d", (2,), {}),
            ("CircularPad{}d", (2,), {}),
            ("Upsample", (), {"scale_factor": 2}),
            ("Upsample", (7,), {"mode": "nearest-exact"}),
        ]
    ],
    ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "padding": (1, 0), "dilation": (1, 2)}, IMAGE),
    ("BatchNorm1d", (4,), {}, (5, 4)),
    ("Upsample", (), {"scale_factor": (1.5, 2), "mode": "bicubic"}, IMAGE),
    ("UpsamplingNearest2d", (5,), {}, IMAGE),
    ("UpsamplingBilinear2d", (), {"scale_factor": 2}, IMAGE),
    ("PixelShuffle", (2,), {}, IMAGE),
    ("PixelUnshuffle", (2,), {}, IMAGE),
    ("ChannelShuffle", (2,), {}, IMAGE),
    ("Unflatten", (1, (2, -1)), {}, IMAGE),
    ("Unfold", (2,), {"padding": 1}, IMAGE),
    ("Fold", ((4, 3), 2), {}, (2, 8, 6)),
    ("GroupNorm", (2, 4), {}, IMAGE),
    ("GroupNorm", (2, 4), {"bias": False}, IMAGE),
    ("GroupNorm", (4, 4), {"affine": False}, LINE),
    ("RMSNorm", (6,), {}, IMAGE),
    ("RMSNorm", ((8, 6),), {"elementwise_affine": False, "eps": 1e-3}, IMAGE),
    ("LocalResponseNorm", (2,), {}, IMAGE),
    ("Dropout1d", (0.0,), {}, LINE),
    ("Dropout2d", (0.0,), {}, IMAGE),
    ("Dropout3d", (0.0,), {}, VOLUME),
    ("AlphaDropout", (0.0,), {}, LINE),
    ("FeatureAlphaDropout", (0.0,), {}, LINE),
]


def named(case):
    name, args, options, shape = case
    return f"{name}{args}{options or ''}{len(shape)}"


def twins(torch, case):
    """(ours, theirs) with equal weights."""
    name, args, options, _ = case
    ours, theirs = getattr(nn, name)(*args, **options), getattr(torch.nn, name)(*args, **options)
    ours.load_state_dict({k: jtorch.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def close(ours, theirs):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=3e-5, atol=3e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", LAYERS, ids=named)
def test_layer_equals_pytorch(torch, case):
    ours, theirs = twins(torch, case)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [p.shape for p in ours.parameters()] == [tuple(p.shape) for p in theirs.parameters()]
    x = np.random.default_rng(0).standard_normal(case[3]).astype(np.float32)
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        a, b = jtorch.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        out, expected = ours(a), theirs(b)
        if isinstance(expected, tuple):
            assert out[1].tolist() == expected[1].tolist()
            out, expected = out[0], expected[0]
        close(out, expected)
        g = np.random.default_rng(1).standard_normal(tuple(expected.shape)).astype(np.float32)
        out.backward(jtorch.tensor(g))
        expected.backward(torch.tensor(g))
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=3e-5, atol=1e-5)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=3e-5, atol=3e-5)
    for (name, p), q in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        assert str(p.dtype).partition(".")[2] == str(q.dtype).partition(".")[2], name
        close(p, q)


ERRORS = [
    ("Conv1d", (4, 6, 3), {"groups": 0}, None),
    ("Conv3d", (4, 6, 3), {"groups": 4}, None),
    ("Conv2d", (4, 6, 3, 2), {"padding": "same"}, None),
    ("ConvTranspose2d", (4, 6, 3), {"padding_mode": "reflect"}, None),
    ("Conv2d", (4, 6, 3), {}, (2, 3, 8, 8)),
    ("Conv2d", (4, 6, 3), {}, (8, 8)),
    ("BatchNorm1d", (4,), {}, IMAGE),
    ("BatchNorm2d", (4,), {}, LINE),
    ("BatchNorm3d", (4,), {}, LINE),
    ("BatchNorm2d", (3,), {}, IMAGE),
    ("BatchNorm1d", (4,), {}, (1, 4)),
    ("InstanceNorm1d", (4,), {}, IMAGE),
    ("InstanceNorm2d", (3,), {"affine": True}, IMAGE),
    ("GroupNorm", (2, 3), {}, None),
    ("Dropout2d", (1.5,), {}, None),
    ("Unflatten", (1, 4), {}, None),
    ("Unflatten", (1, (2, 3)), {}, IMAGE),
    ("PixelShuffle", (3,), {}, IMAGE),
]


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: f"{c[0]}{c[1]}{c[2] or ''}{c[3] or ''}")
def test_error_is_pytorchs(torch, case):
    name, args, options, shape = case
    messages = []
    for library in (torch, jtorch):
        with pytest.raises(Exception) as error:
            getattr(library.nn, name)(*args, **options)(library.ones(shape or (1,)))
        messages.append((type(error.value).__name__, str(error.value)))
    assert messages[0] == messages[1]


def test_padding_mode_is_one_of_four():
    with pytest.raises(ValueError, match=r"padding_mode must be one of .* but got padding_mode='foo'"):
        nn.Conv2d(4, 6, 3, padding_mode="foo")


@pytest.mark.parametrize("size", [(9, 9), (10, 9), (2, 6, 10, 10)])
def test_output_size_of_a_transposed_convolution(torch, size):
    ours, theirs = twins(torch, ("ConvTranspose2d", (4, 6, 3, 2), {}, None))
    x = np.random.default_rng(0).standard_normal((2, 4, 4, 4)).astype(np.float32)
    close(ours(jtorch.tensor(x), output_size=size), theirs(torch.tensor(x), output_size=size))


@pytest.mark.parametrize("size", [(20, 20), (9, 9, 9)])
def test_output_size_out_of_reach(torch, size):
    ours, theirs = twins(torch, ("ConvTranspose2d", (4, 6, 3, 2), {}, None))
    with pytest.raises(ValueError, match="output") as expected:
        theirs(torch.ones(1, 4, 4, 4), output_size=size)
    with pytest.raises(ValueError, match="output") as found:
        ours(jtorch.ones(1, 4, 4, 4), output_size=size)
    assert str(found.value) == str(expected.value)


def test_unpooling_undoes_pooling(torch):
    x = np.random.default_rng(0).standard_normal(IMAGE).astype(np.float32)
    found = []
    for library in (jtorch, torch):
        pool, unpool = library.nn.MaxPool2d(2, 2, return_indices=True), library.nn.MaxUnpool2d(2, 2)
        found.append(unpool(*pool(library.tensor(x))))
        text = repr(unpool)
    close(*found)
    assert repr(nn.MaxUnpool2d(2, 2)) == text


def test_running_statistics_follow_the_batches(torch):
    """Three batches, exponential and cumulative averages."""
    for momentum in (0.3, None):
        ours, theirs = twins(torch, ("BatchNorm2d", (4, 1e-5, momentum), {}, None))
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal(IMAGE).astype(np.float32)
            ours(jtorch.tensor(x))
            theirs(torch.tensor(x))
        close(ours.running_mean, theirs.running_mean)
        close(ours.running_var, theirs.running_var)
        assert ours.num_batches_tracked.item() == 3


@pytest.mark.parametrize("momentum", [0.3, None])
def test_running_statistics_while_compiled(momentum):
    """The third call of a compiled step moves the buffers as the third eager call does."""
    plain, compiled = nn.BatchNorm1d(3, momentum=momentum), nn.BatchNorm1d(3, momentum=momentum)
    step = jtorch.compile(lambda x: compiled(x))
    for seed in range(3):
        x = jtorch.tensor(np.random.default_rng(seed).standard_normal((5, 3)).astype(np.float32))
        np.testing.assert_allclose(step(x).detach().numpy(), plain(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(compiled.running_var.numpy(), plain.running_var.numpy(), rtol=1e-5)
    np.testing.assert_allclose(
        compiled.running_mean.numpy(), plain.running_mean.numpy(), rtol=1e-5, atol=1e-6
    )
    assert compiled.num_batches_tracked.item() == 3


@pytest.mark.slow
def test_a_compiled_training_step_equals_eager():
    def build():
        jtorch.manual_seed(3)
        return nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(3), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout2d(0.5), nn.ConvTranspose2d(3, 2, 2, stride=2), nn.GroupNorm(1, 2),
            nn.AdaptiveAvgPool2d(3),
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.Flatten(),
        )  # fmt: skip

    def run(model, step):
        jtorch.manual_seed(5)
        for seed in range(3):
            step(
                model,
                jtorch.tensor(np.random.default_rng(seed).standard_normal((4, 1, 6, 6)).astype(np.float32)),
            )
        return [t.numpy() for t in model.state_dict().values()]

    def step(model, x):
        model.zero_grad()
        (model(x) ** 2).mean().backward()
        with jtorch.no_grad():
            for p in model.parameters():
                p.sub_(p.grad * 0.1)

    eager, compiled = build(), build()
    for a, b in zip(run(eager, step), run(compiled, jtorch.compile(step)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_what_is_missing_says_so():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nn.InstanceNorm2d(4)(jtorch.ones(4, 3, 3)).shape == (4, 3, 3)
