"""What scripts ask of, and set on, the libraries under PyTorch: truthful answers, and switches, of which
those for TF32 have an effect.

Source: https://docs.pytorch.org/docs/stable/backends.html
"""

from jtorch.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, nnpack, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "nnpack", "openmp"]
