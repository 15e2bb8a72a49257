"""Elements that lie along axes of any strides, copied to where they lie along others: windows of images,
which share memory, as a matrix that cuBLAS can walk; views of tensors, side by side; and back.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from jtorch.core.strides import contiguous_strides
from jtorch.native.cuda.device import Device

_THREADS = 256  # of a block


def gather(
    device: Device, to: int, source: int, sizes: Sequence[int], strides: Sequence[int], itemsize: int
) -> None:
    """Put the copy into the device's stream: ``to`` gets the elements in row-major order. ``strides`` count
    elements."""
    move(device, to, contiguous_strides(tuple(sizes)), source, strides, sizes, itemsize)


def move(
    device: Device, to: int, to_strides: Sequence[int], source: int, strides: Sequence[int],
    sizes: Sequence[int], itemsize: int,
) -> None:  # fmt: skip
    """The same to elements that lie along axes themselves. ``itemsize`` is a power of two of at most 16."""
    if itemsize == 16:  # a complex number is two words
        double = [(*(2 * s for s in some), 1) for some in (to_strides, strides)]
        return move(device, to, double[0], source, double[1], (*sizes, 2), 8)
    count = math.prod(sizes)
    if not count:
        return None
    kernel = device.kernel(text(len(sizes), itemsize), f"gather_{len(sizes)}_{itemsize}")
    steps = [itemsize * stride for stride in (*to_strides, *strides)]
    device.launch(kernel, (-(-count // _THREADS), 1), (_THREADS, 1), [to, source, count, *sizes, *steps])
    return None


@functools.cache
def text(ndim: int, itemsize: int) -> str:
    """PTX of the kernel for so many axes: a thread copies one element, whose number it takes apart."""
    entry, bits = f"gather_{ndim}_{itemsize}", 8 * itemsize
    register = "%r1" if bits == 32 else "%rd9"
    parameters = ",\n".join(f"\t.param .u64 {entry}_param_{k}" for k in range(3 + 3 * ndim))
    axes = "\n".join(
        f"""
	ld.param.u64 	%rd5, [{entry}_param_{3 + k}];
	ld.param.u64 	%rd6, [{entry}_param_{3 + ndim + k}];
	ld.param.u64 	%rd8, [{entry}_param_{3 + 2 * ndim + k}];
	rem.u64 	%rd7, %rd4, %rd5;
	div.u64 	%rd4, %rd4, %rd5;
	mul.lo.s64 	%rd6, %rd7, %rd6;
	add.s64 	%rd1, %rd1, %rd6;
	mul.lo.s64 	%rd8, %rd7, %rd8;
	add.s64 	%rd2, %rd2, %rd8;"""
        for k in reversed(range(ndim))
    )
    return f"""
.version 8.0
.target sm_80
.address_size 64

.visible .entry {entry}(
{parameters}
)
{{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<10>;
	ld.param.u64 	%rd1, [{entry}_param_0];
	ld.param.u64 	%rd2, [{entry}_param_1];
	ld.param.u64 	%rd3, [{entry}_param_2];
	mov.u32 	%r1, %ctaid.x;
	mov.u32 	%r2, %ntid.x;
	mov.u32 	%r3, %tid.x;
	mul.wide.u32 	%rd4, %r1, %r2;
	cvt.u64.u32 	%rd5, %r3;
	add.s64 	%rd4, %rd4, %rd5;
	setp.ge.u64 	%p1, %rd4, %rd3;
	@%p1 bra 	$DONE;
{axes}

	ld.global.u{bits} 	{register}, [%rd2];
	st.global.u{bits} 	[%rd1], {register};
$DONE:
	ret;
}}
"""
