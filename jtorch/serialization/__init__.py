"""Files: ``save`` and ``load``.

``api`` the two functions and how a file's kind is recognised - ``structure`` nested containers as JSON -
``tensors`` that JSON with its tensors as a safetensors file - ``numpy_files`` .npy and .npz -
``torch_reader`` and ``torch_writer`` PyTorch's .pt, on ``unpickle``, ``zipped`` and ``torch_names``. Reading
looks values up and never runs code, whatever the file says.
"""

from jtorch.serialization.api import load, save
