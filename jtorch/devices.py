"""Devices. This build computes on the CPU; asking for another device is an error, never a silent CPU."""

from __future__ import annotations


class device:  # noqa: N801 - the name users of PyTorch know
    """A place tensors live: ``device("cpu")``. Raises RuntimeError for a device this build lacks."""

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, spec: str | device) -> None:
        if isinstance(spec, device):
            self.type, self.index = spec.type, spec.index
            return
        kind, _, index = str(spec).partition(":")
        if kind not in ("cpu", "cuda"):
            raise RuntimeError(
                f"Expected one of cpu, cuda device type at start of device string: {spec}"
            )
        if kind == "cuda":
            raise RuntimeError("jtorch not compiled with CUDA enabled: this build runs on 'cpu'")
        self.type = kind
        self.index = int(index) if index else None

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


CPU = device("cpu")


def check(spec: str | device | None) -> device:
    """The device a ``device=`` argument asks for; CPU for None."""
    return CPU if spec is None or spec is CPU else device(spec)
