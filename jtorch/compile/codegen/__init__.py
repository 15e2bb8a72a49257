"""From fused kernels to object code: source text, scalar math, compilation."""
