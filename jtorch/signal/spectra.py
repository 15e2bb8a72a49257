"""Spectra over time: ``torch.stft`` and its inverse, as windows of the signal, transformed one by one.

Source: https://docs.pytorch.org/docs/stable/generated/torch.stft.html and torch.istft.html
"""

from __future__ import annotations

import warnings
from typing import Any

from jtorch.eager.public import Tensor, functions, long_name, ones, ops
from jtorch.nn.functional.padding import bordered

_NO_WINDOW = (
    "A window was not provided. A rectangular window will be applied,which is known to cause spectral "
    "leakage. Other windows such as torch.hann_window or torch.hamming_window are recommended to "
    "reduce spectral leakage.To suppress this warning and use a rectangular window, explicitly set "
    "`window=torch.ones(n_fft, device=<device>)`."
)
_NOT_COMPLEX = (
    "stft with return_complex=False is deprecated. In a future pytorch release, stft will return "
    "complex tensors for all inputs, and return_complex=False will raise an error.\nNote: you can "
    "still call torch.view_as_real on the complex output to recover the old return format."
)
_NO_WINDOW_BACK = (
    "A window was not provided. A rectangular window will be applied.Please provide the same window "
    "used by stft to make the inversion lossless.To suppress this warning and use a rectangular "
    "window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
)
_TOO_SHORT = (
    "The length of signal is shorter than the length parameter. Result is being padded with zeros in "
    "the tail. Please check your center and hop_length settings."
)


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Transforms of ``n_fft`` elements each, ``hop_length`` apart (a quarter of them by default), as columns.

    ``input`` is (..., length) with at most one dim more; the result (..., frequencies, frames), of real input
    the n_fft // 2 + 1 frequencies that ``torch.fft.rfft`` has unless ``onesided=False``. ``window``, of
    ``win_length`` elements, is put in the middle of each frame. ``center`` puts the middle of the first frame
    on the first element, with a border by ``pad_mode``. ``normalized`` divides by the root of ``n_fft``.
    ``align_to_window``, without ``center`` alone, lets the first window begin at the first element.

    >>> import jtorch
    >>> jtorch.stft(jtorch.ones(4), 4, window=jtorch.ones(4), center=False, return_complex=True)
    tensor([[4.+0.j],
            [0.+0.j],
            [0.+0.j]])
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if center:
        lead = (1,) * (3 - input.ndim)
        padded = bordered(input.reshape(*lead, *input.shape), [n_fft // 2] * 2, pad_mode)
        input = padded.reshape(padded.shape[-input.ndim :])
    hop, width = hop_length, n_fft if win_length is None else win_length
    hop = n_fft // 4 if hop is None else hop
    if window is None:
        warnings.warn(_NO_WINDOW, UserWarning, stacklevel=2)
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    return_complex = _asked_for_complex(return_complex, is_complex)
    said = _called(
        "stft", f"torch.{_kind(input)}Tensor", input, n_fft, hop, width, window,
        f"normalized={int(normalized)}, onesided={_optional(onesided)}, "
        f"return_complex={int(return_complex)}, align_to_window={_optional(align_to_window)}",
    )  # fmt: skip
    _check_signal(said, input)
    frames = input if input.ndim == 2 else input.reshape(1, -1)
    length, aligned = frames.shape[1], bool(align_to_window)
    if n_fft <= 0 or n_fft > length:
        raise RuntimeError(f"{said} : expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    _check_window(said, n_fft, hop, width, window)
    if aligned and width < n_fft:
        before = (n_fft - width) // 2
        frames = bordered(frames, [before, n_fft - width - before])
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    frames = frames.unfold(-1, n_fft, hop)
    if window is not None or width < n_fft:
        frames = frames * _in_the_middle(window, width, n_fft, frames)
    divisor = "root" if normalized else "one"
    axes = (frames.ndim - 1,)
    if is_complex or onesided is False:
        found = ops.fft_complex(frames, axes=axes, forward=True, divisor=divisor)
    else:
        found = ops.fft_halved(frames, axes=axes, divisor=divisor)
    found = found.transpose(1, 2)
    found = found if input.ndim == 2 else found.squeeze(0)
    return found if return_complex else functions.view_as_real(found)


def _asked_for_complex(given: bool | None, is_complex: bool) -> bool:
    if given is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further "
                "require that return_complex=True in a future PyTorch release."
            )
        return True
    if not given:
        warnings.warn(_NOT_COMPLEX, UserWarning, stacklevel=3)
    return bool(given)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose ``stft`` is ``input``: frames added up where they overlap, over the sum of the squares
    of the windows there.

    ``length`` cuts it off, or fills it up with zeros. Raises RuntimeError where no window reaches a place.

    >>> import jtorch
    >>> x = jtorch.arange(8.0)
    >>> jtorch.istft(jtorch.stft(x, 4, window=jtorch.ones(4), return_complex=True), 4, window=jtorch.ones(4))
    tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    if window is None:
        warnings.warn(_NO_WINDOW_BACK, UserWarning, stacklevel=2)
    width = n_fft if win_length is None else win_length
    hop = n_fft // 4 if hop_length is None else hop_length
    said = _called(
        "istft", f"CPU{_kind(input)}Type", input, n_fft, hop, width, window,
        f"center={int(center)}, normalized={int(normalized)}, onesided={_optional(onesided)}, "
        f"length={'None' if length is None else length}, return_complex={int(return_complex)}",
    )  # fmt: skip
    halved = _check_spectrum(said, input, n_fft, onesided, window, return_complex)
    if not 0 < hop <= width:
        raise RuntimeError(f"{said} : expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"{said} : expected 0 < win_length <= n_fft")
    if window is not None and (window.ndim != 1 or window.shape[0] != width):
        raise RuntimeError(f"{said} : Invalid window shape. window has to be 1D and length of `win_length`")
    spectrum = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(1, 2)
    frames = _frames(spectrum, n_fft, halved, normalized, return_complex)
    count, whole = frames.shape[1], n_fft + hop * (frames.shape[1] - 1)
    factor = _in_the_middle(window, width, n_fft, frames)
    laid = {"kernel": (n_fft,), "stride": (hop,), "dilation": (1,)}
    out = ops.fold(frames * factor, shape=(frames.shape[0], whole), **laid)
    squares = (factor * factor).expand(1, count, n_fft)
    weight = ops.fold(squares, shape=(1, whole), **laid)
    start = n_fft // 2 if center else 0
    if length is not None:
        stop = start + length
    else:
        stop = whole - n_fft // 2 if center else whole
    out, weight = out[:, start:stop], weight[:, start:stop]
    if bool(weight.abs().min() < 1e-11):
        raise RuntimeError(f"{said} window overlap add min: 1\n[ CPUBoolType{{}} ]")
    out = out / weight
    out = out if input.ndim == 3 else out.squeeze(0)
    if stop <= whole:
        return out
    warnings.warn(_TOO_SHORT, UserWarning, stacklevel=2)
    return functions.cat([out, out.new_zeros((*out.shape[:-1], stop - whole))], -1)


def _frames(spectrum: Tensor, n_fft: int, halved: bool, normalized: bool, return_complex: bool) -> Tensor:
    """(N, frames, n_fft) from (N, frames, frequencies)."""
    axes, divisor = (2,), "root" if normalized else "count"
    if return_complex:
        return ops.fft_complex(spectrum, axes=axes, forward=False, divisor=divisor)
    if not halved:
        spectrum = spectrum[..., : n_fft // 2 + 1]
    return ops.fft_real(spectrum, axes=axes, size=n_fft, divisor=divisor)


def _in_the_middle(window: Tensor | None, width: int, n_fft: int, like: Tensor) -> Tensor:
    """The window, of ones by default, with zeros on both sides."""
    if window is None:
        real = functions.real(like) if like.is_complex() else like
        window = ones(width, dtype=real.dtype)
    before = (n_fft - width) // 2
    return bordered(window, [before, n_fft - width - before])


# -- errors --------------------------------------------------------------------------------------------------


def _kind(tensor: Tensor) -> str:
    return f"{long_name(tensor.dtype.numpy)}"


def _optional(value: Any) -> str:
    return "None" if value is None else str(int(value))


def _called(
    name: str, kind: str, input: Tensor, n_fft: int, hop: int, width: int, window: Tensor | None, rest: str
) -> str:
    """How PyTorch's sentences tell the call."""
    shown = "None" if window is None else f"torch.{_kind(window)}Tensor{{{list(window.shape)}}}"
    return (
        f"{name}({kind}{list(input.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={width}, "
        f"window={shown}, {rest})"
    )


def _check_signal(said: str, input: Tensor) -> None:
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"{said} : expected a tensor of floating point or complex values")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"{said} : expected a 1D or 2D tensor")
    if input.element_size() < 4:
        raise RuntimeError(f"MKL FFT doesn't support tensors of type: {_kind(input)}")


def _check_window(said: str, n_fft: int, hop: int, width: int, window: Tensor | None) -> None:
    if hop <= 0:
        raise RuntimeError(f"{said} : expected hop_length > 0, but got hop_length={hop}")
    if width <= 0 or width > n_fft:
        raise RuntimeError(f"{said} : expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is not None and (window.ndim != 1 or window.shape[0] != width):
        raise RuntimeError(
            f"{said} : expected a 1D window tensor of size equal to win_length={width}, but got window with "
            f"size {list(window.shape)}"
        )


def _check_spectrum(
    said: str, input: Tensor, n_fft: int, onesided: bool | None, window: Tensor | None, return_complex: bool
) -> bool:
    """Whether ``input`` has only the frequencies of a real signal."""
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if not input.numel():
        raise RuntimeError(f"{said} : input tensor cannot be empty.")
    if input.ndim not in (2, 3):
        raise RuntimeError(f"{said} : expected a tensor with 3 or 4 dimensions, but got {input.ndim + 1}")
    count = input.shape[-2]
    halved = count != n_fft if onesided is None else onesided
    for expected, size, given in (("n_fft / 2 + 1", n_fft // 2 + 1, True), ("n_fft", n_fft, False)):
        if bool(halved) == given and count != size:
            raise RuntimeError(
                f"{said} : expected the frequency dimension (3rd to the last) of the input tensor to match "
                f"{expected} when onesided={given}, but got {count}"
            )
    if window is not None and window.is_complex() and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    if halved and return_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    return bool(halved)
