"""The names of a model's parameters, whatever wraps the model or a part of it."""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor
from jtorch.nn.module import Module
from jtorch.nn.parallel.distributed import DistributedDataParallel

_COMPILED = "_orig_mod."  # what jtorch.compile(module) puts before


class Names:
    """Names as a plain model has them: no ``module.`` of DistributedDataParallel, no ``_orig_mod.``."""

    def __init__(self, model: Module) -> None:
        wrapped = [n for n, m in model.named_modules() if isinstance(m, DistributedDataParallel)]
        prefixes = [f"{name}.module." if name else "module." for name in wrapped]
        self._prefixes = sorted(prefixes, key=len, reverse=True)  # the inner ones first
        self._own = {self.clean(key): key for key in model.state_dict()}
        self._params: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        for name, p in model.named_parameters(remove_duplicate=False):
            self._params[self.clean(name)] = p
            self._names.setdefault(id(p), self.clean(name))

    def clean(self, key: str) -> str:
        """The plain name of what the model itself calls ``key``."""
        for prefix in self._prefixes:
            if key.startswith(prefix):
                key = prefix.removesuffix("module.") + key[len(prefix) :]
        return key.replace(_COMPILED, "")

    def own(self, name: str) -> str:
        """What the model itself calls it."""
        return self._own.get(name, name)

    def of(self, p: Tensor) -> str:
        """The name of a parameter; of a shared one the first. Raises ValueError for one of another model."""
        if id(p) not in self._names:
            raise ValueError(
                f"a parameter of shape {list(p.shape)} of the optimizer is none of the model's: pass the "
                "model that it was made for"
            )
        return self._names[id(p)]

    def frozen(self) -> set[str]:
        """The names of parameters that don't require grad."""
        return {name for name, p in self._params.items() if not p.requires_grad}

    def sharding(self, name: Any) -> Any:
        """How the parameter of this name is shared out; None for what is not."""
        return getattr(self._params.get(name), "sharding", None)
