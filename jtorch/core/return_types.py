"""The named tuples that functions with several results return: ``x.max(0).values``.

Each prints as PyTorch prints its own.
Source: https://docs.pytorch.org/docs/stable/generated/torch.max.html
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

_FIELDS = {
    "aminmax": "min max", "histogram": "hist bin_edges",
    "histogramdd": "hist bin_edges", "frexp": "mantissa exponent",
    "linalg_cholesky_ex": "L info", "linalg_eig": "eigenvalues eigenvectors",
    "linalg_eigh": "eigenvalues eigenvectors", "linalg_inv_ex": "inverse info",
    "geqrf": "a tau", "linalg_ldl_factor": "LD pivots", "linalg_ldl_factor_ex": "LD pivots info",
    "linalg_lu_factor_ex": "LU pivots info", "lu_unpack": "P L U",
    "linalg_lstsq": "solution residuals rank singular_values", "linalg_lu": "P L U",
    "linalg_lu_factor": "LU pivots", "linalg_qr": "Q R", "linalg_slogdet": "sign logabsdet",
    "linalg_solve_ex": "result info", "linalg_svd": "U S Vh", "qr": "Q R", "slogdet": "sign logabsdet",
    "svd": "U S V", "triangular_solve": "solution cloned_coefficient",
}  # fmt: skip
_FIELDS |= dict.fromkeys(
    ("cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "nanmedian", "sort", "topk"),
    "values indices",
)


class _Printed:
    """How a named result prints: one field a line."""

    __slots__ = ()
    _fields: tuple[str, ...]

    def __repr__(self: Any) -> str:
        rows = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"jtorch.return_types.{type(self).__name__}(\n{rows})"


def _named(name: str, fields: str) -> type:
    base: Any = namedtuple(name, fields)  # type: ignore[misc] # made from the table above
    return type(name, (_Printed, base), {"__slots__": (), "__module__": "jtorch.return_types"})


ALL: dict[str, Any] = {name: _named(name, fields) for name, fields in _FIELDS.items()}
globals().update(ALL)
__all__ = [*ALL]


def __getattr__(name: str) -> Any:  # for type checkers: the names above are made from the table
    raise AttributeError(f"jtorch.return_types has no {name!r}; it offers {', '.join(sorted(ALL))}")
