"""The text of kernels. See README.md."""
