"""PyTorch's names in a .pt file: storages and dtypes."""

from __future__ import annotations

from jtorch.core import dtypes as dt

STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16",
    "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}  # fmt: skip
STORAGE_OF = {name: storage for storage, name in STORAGES.items()}
# the dtypes that PyTorch knows, or may come to know, beside those with a storage class of their own
DTYPES = frozenset(STORAGES.values()) | {
    "uint16", "uint32", "uint64", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu",
}  # fmt: skip


def dtype_named(name: str, wanted_by: str) -> dt.dtype:
    """The dtype of that name. Raises NotImplementedError where jtorch has none."""
    for d in dt.ALL:
        if d.name == name:
            return d
    raise NotImplementedError(f"{wanted_by} has the dtype {name}, which jtorch lacks")
