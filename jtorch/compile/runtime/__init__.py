"""What runs a compiled plan, in the order a call meets it.

executor   the builtin that patches arguments and walks the table of kernels
blas       matrix products by address, from a private OpenBLAS
arena      the plan's memory
native     object code to addresses: `elf` links it, llvmlite's MCJIT is the fallback
"""
