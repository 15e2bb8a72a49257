"""What runs a compiled plan, in the order a call meets it; and ``results``, which eager mode's ops call.

executor   the builtin that patches arguments and walks the table of kernels
blas       matrix products by address, from a private OpenBLAS
arena      the plan's memory
native     object code to addresses: `elf` links it, llvmlite's MCJIT is the fallback
builtin    machine code as a builtin function of Python
results    the Tensors and nodes of eager ops, made by machine code
"""
