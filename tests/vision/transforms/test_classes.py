"""The transforms as classes: their reprs, their random choices, their arguments' errors."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.vision import transforms as T

IMAGE = jtorch.tensor(np.random.default_rng(0).random((3, 12, 10)), dtype=jtorch.float32)


@pytest.fixture(autouse=True)
def seed():
    jtorch.manual_seed(0)


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (T.ToTensor(), "ToTensor()"),
        (T.PILToTensor(), "PILToTensor()"),
        (T.ToPILImage(), "ToPILImage()"),
        (T.Normalize([0.5], [0.25]), "Normalize(mean=[0.5], std=[0.25])"),
        (T.Resize(8), "Resize(size=8, interpolation=bilinear, max_size=None, antialias=True)"),
        (T.CenterCrop(8), "CenterCrop(size=(8, 8))"),
        (T.RandomCrop(8, padding=2), "RandomCrop(size=(8, 8), padding=2)"),
        (T.RandomHorizontalFlip(), "RandomHorizontalFlip(p=0.5)"),
        (T.RandomVerticalFlip(0.25), "RandomVerticalFlip(p=0.25)"),
        (T.Pad(3), "Pad(padding=3, fill=0, padding_mode=constant)"),
        (T.Grayscale(), "Grayscale(num_output_channels=1)"),
        (T.RandomGrayscale(), "RandomGrayscale(p=0.1)"),
        (T.Lambda(len), "Lambda()"),
        (
            T.RandomRotation(10),
            "RandomRotation(degrees=[-10.0, 10.0], interpolation=nearest, expand=False, fill=0)",
        ),
        (
            T.ColorJitter(0.5, hue=0.1),
            "ColorJitter(brightness=(0.5, 1.5), contrast=None, saturation=None, hue=(-0.1, 0.1))",
        ),
        (
            T.RandomErasing(),
            "RandomErasing(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False)",
        ),
        (
            T.RandomResizedCrop(8),
            "RandomResizedCrop(size=(8, 8), scale=(0.08, 1.0), ratio=(0.75, 1.3333), interpolation=bilinear, "
            "antialias=True)",
        ),
        (
            T.Compose([T.ToTensor(), T.Pad(1)]),
            "Compose(\n    ToTensor()\n    Pad(padding=1, fill=0, padding_mode=constant)\n)",
        ),
        (T.RandomApply([T.ToTensor()], 0.3), "RandomApply(\n    p=0.3\n    ToTensor()\n)"),
    ],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_reprs_are_torchvisions(transform, text):
    assert repr(transform) == text


@pytest.mark.parametrize("flip", [T.RandomHorizontalFlip, T.RandomVerticalFlip, T.RandomGrayscale])
def test_probability(flip):
    assert flip(0.0)(IMAGE) is IMAGE and not flip(1.0)(IMAGE).equal(IMAGE)
    half = flip(0.5)
    changed = sum(half(IMAGE) is not IMAGE for _ in range(400))
    assert 150 < changed < 250  # five standard deviations


def test_the_seed_decides():
    transform = T.Compose([T.RandomResizedCrop(6), T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomErasing(1.0)])
    first = transform(IMAGE)
    assert not first.equal(transform(IMAGE)) and first.shape == (3, 6, 6)
    jtorch.manual_seed(0)
    assert first.equal(transform(IMAGE))


def test_random_crop_reaches_every_place():
    places = {T.RandomCrop.get_params(IMAGE, (10, 9)) for _ in range(200)}
    assert places == {(top, left, 10, 9) for top in range(3) for left in range(2)}
    assert T.RandomCrop((12, 10))(IMAGE).equal(IMAGE)
    assert T.RandomCrop(16, pad_if_needed=True)(IMAGE).shape == (3, 16, 16)
    assert T.RandomCrop(12, padding=2, padding_mode="reflect")(IMAGE).shape == (3, 12, 12)
    with pytest.raises(
        ValueError, match=r"Required crop size \(13, 10\) is larger than input image size \(12, 10\)"
    ):
        T.RandomCrop((13, 10))(IMAGE)


def test_random_resized_crop_keeps_its_bounds():
    for _ in range(100):
        top, left, h, w = T.RandomResizedCrop.get_params(IMAGE, (0.2, 0.6), (0.5, 2.0))
        assert 0 <= top <= 12 - h and 0 <= left <= 10 - w
        assert 0.1 < h * w / 120 < 0.75 and 0.35 < w / h < 2.8  # bounds, and rounding to pixels
    assert T.RandomResizedCrop.get_params(IMAGE, (9.0, 9.0), (1.0, 1.0)) == (1, 0, 10, 10)  # ten failures


def test_random_erasing():
    out = T.RandomErasing(1.0, value=(2.0, 3.0, 4.0))(IMAGE)
    erased = out != IMAGE
    assert 0 < erased[0].sum() <= 0.5 * 120 and (out[1][erased[1]] == 3.0).all()
    noise = T.RandomErasing(1.0, value="random")(IMAGE)
    assert noise[noise != IMAGE].std() > 0.3
    assert T.RandomErasing(0.0)(IMAGE) is IMAGE
    copy = IMAGE.clone()
    assert T.RandomErasing(1.0, inplace=True)(copy) is copy and not copy.equal(IMAGE)


def test_combinations():
    def add(k):
        return lambda x: x + [k]

    assert T.Compose([add(1), add(2)])([]) == [1, 2]
    assert sorted(T.RandomOrder([add(1), add(2), add(3)])([])) == [1, 2, 3]
    assert {T.RandomChoice([add(1), add(2)])([])[0] for _ in range(50)} == {1, 2}
    assert {T.RandomChoice([add(1), add(2)], p=[0.0, 1.0])([])[0] for _ in range(50)} == {2}
    assert {len(T.RandomApply([add(1), add(2)])([])) for _ in range(50)} == {0, 2}


def test_color_jitter_draws_from_its_bounds():
    white = jtorch.ones(1, 1, 1)
    jitter = T.ColorJitter(brightness=(0.2, 0.6))
    found = [jitter(white).item() for _ in range(200)]
    assert 0.2 <= min(found) < 0.25 and 0.55 < max(found) <= 0.6
    assert T.ColorJitter()(IMAGE) is IMAGE


def test_rotation_of_a_pillow_image():
    pytest.importorskip("PIL", reason="rotation is Pillow's, which is not installed")
    image = T.ToPILImage()(IMAGE)
    turned = T.RandomRotation((90, 90), expand=True)(image)
    assert turned.size == (12, 10)
    with pytest.raises(NotImplementedError, match="Pillow's images alone"):
        T.RandomRotation(3)(IMAGE)


def test_modules_go_into_sequential():
    both = jtorch.nn.Sequential(
        T.CenterCrop(4), T.ConvertImageDtype(jtorch.float64), T.Normalize((0.5,), (0.5,))
    )
    assert both(IMAGE).shape == (3, 4, 4) and both(IMAGE).dtype is jtorch.float64


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: T.CenterCrop((1, 2, 3)), ValueError, "Please provide only two dimensions"),
        (lambda: T.Resize((1, 2, 3)), ValueError, "it should have 1 or 2 values"),
        (lambda: T.Resize("3"[0:0] or 2.5), TypeError, "Size should be int or sequence"),
        (lambda: T.Pad((1, 2, 3)), ValueError, "not a 3 element tuple"),
        (lambda: T.Pad(1, padding_mode="x"), ValueError, "either constant, edge, reflect or symmetric"),
        (lambda: T.RandomRotation(-1), ValueError, "If degrees is a single number, it must be positive"),
        (lambda: T.RandomRotation((1, 2, 3)), ValueError, "degrees should be a sequence of length 2"),
        (lambda: T.ColorJitter(-1), ValueError, "If brightness is a single number, it must be non negative"),
        (lambda: T.ColorJitter(hue=0.6), ValueError, r"hue values should be between \(-0.5, 0.5\)"),
        (lambda: T.ColorJitter("x"), TypeError, "brightness should be a single number or a list/tuple"),
        (lambda: T.RandomErasing(2), ValueError, "probability should be between 0 and 1"),
        (lambda: T.RandomErasing(value="x"), ValueError, "it should be 'random'"),
        (lambda: T.RandomErasing(scale=(0, 2)), ValueError, "Scale should be between 0 and 1"),
        (lambda: T.RandomErasing(1.0, value=(1, 2))(IMAGE), ValueError, r"or 3 \(number of input channels\)"),
        (lambda: T.Lambda(3), TypeError, "Argument lambd should be callable, got 'int'"),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()
