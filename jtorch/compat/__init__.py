"""What stands behind names that only PyTorch's scripts ask for."""
