"""Which kernels there are, their loops, and where values lie. See README.md."""
