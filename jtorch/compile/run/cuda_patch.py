"""Words of device memory set by parameters of a kernel, before a graph runs that reads them.

What changes from call to call is a few words: a learning rate, a step, the count of random draws. The driver
copies a kernel's parameters as it is launched, so the host may write the next ones at once. A copy from
pinned memory would need a slot for each call under way, and an event to know when it is free.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jtorch.native.cuda.device import MOST_PARAMETERS, Device

_MOST_WORDS = MOST_PARAMETERS - 1  # of a launch; the first parameter is where they go


def patch(device: Device, address: int, words: Sequence[int]) -> None:
    """Put the setting of these 8-byte words, side by side from ``address`` on, into the device's stream."""
    for begin in range(0, len(words), _MOST_WORDS):
        part = words[begin : begin + _MOST_WORDS]
        kernel = device.kernel(text(len(part)), f"patch_{len(part)}")
        device.launch(kernel, (1, 1), (1, 1), [address + 8 * begin, *part])


@functools.cache
def text(count: int) -> str:
    """PTX of the kernel that sets so many words."""
    entry = f"patch_{count}"
    parameters = ",\n".join(f"\t.param .u64 {entry}_param_{k}" for k in range(count + 1))
    moves = "\n".join(
        f"\tld.param.u64 \t%rd2, [{entry}_param_{k + 1}];\n\tst.global.u64 \t[%rd1+{8 * k}], %rd2;"
        for k in range(count)
    )
    return f"""
.version 8.0
.target sm_80
.address_size 64

.visible .entry {entry}(
{parameters}
)
{{
\t.reg .b64 \t%rd<3>;
\tld.param.u64 \t%rd1, [{entry}_param_0];
{moves}
\tret;
}}
"""
