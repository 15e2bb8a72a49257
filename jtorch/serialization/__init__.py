"""Files: ``save`` and ``load``.

``api`` the two functions and how a file's kind is recognised - ``structure`` nested containers as JSON -
``tensors`` that JSON with its tensors as a safetensors file - ``numpy_files`` .npy and .npz -
``torch_reader`` and ``torch_writer`` PyTorch's .pt, on ``unpickle``, ``zipped`` and ``torch_names`` -
``whole_writer`` and ``whole_reader`` whole objects in it - ``memory`` which tensors are one memory -
``allowed`` what may be loaded beside plain data.
Reading looks values up and never runs code, whatever the file says, unless the caller asks for whole objects.
"""

from jtorch.serialization.allowed import (
    add_safe_globals as add_safe_globals,
    clear_safe_globals as clear_safe_globals,
    get_safe_globals as get_safe_globals,
    safe_globals as safe_globals,
)
from jtorch.serialization.api import load as load, save as save
