"""Names of PyTorch's launcher that scripts import."""
