"""PTX written by hand, for tests of what launches it."""

from __future__ import annotations

from tests.cuda.snippets import HEAD


def _copying(name: str, parameters: str, to: str) -> str:
    """Thread k reads item k of the second parameter's memory."""
    return f"""{HEAD}
.visible .entry {name}(
	{parameters}
)
{{
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<8>;
	ld.param.u64 	%rd1, [{name}_param_0];
	ld.param.u64 	%rd2, [{name}_param_1];
	mov.u32 	%r1, %tid.x;
	mul.wide.u32 	%rd3, %r1, 4;
	add.s64 	%rd4, %rd2, %rd3;
	ld.global.f32 	%r2, [%rd4];
	add.s64 	%rd5, %rd1, %rd3;
	st.global.f32 	[{to}], %r2;
	ret;
}}
"""


def _words(name: str, second: str = "u64") -> str:
    return f".param .u64 {name}_param_0,\n\t.param .{second} {name}_param_1"


COPY = _copying("copy", _words("copy"), "%rd5")
ADD = _copying("same_place", _words("same_place"), "%rd1")
NARROW = _copying("narrow", _words("narrow", "u32"), "%rd5")
