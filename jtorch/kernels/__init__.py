"""Loops for eager mode that NumPy cannot run at speed, as kernels from the cache: it works without them."""
