"""Signals under PyTorch's names: ``torch.signal``, whose one module is ``windows``; and spectra over time."""

from jtorch.signal import windows as windows
