"""``GradScaler``: a loss scaled up, so that small gradients survive float16, and its scale found by trying.

Source: https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler
"""

from __future__ import annotations

import warnings
from typing import Any

import jtorch
from jtorch.core import op
from jtorch.core.devices import cuda_is_available
from jtorch.eager.public import Tensor

_READY, _UNSCALED, _STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Multiplies losses by a scale, divides gradients by it and leaves out steps with infinite ones.

    On a device that is not there it passes everything through, with PyTorch's warning. The scale grows by
    ``growth_factor`` after ``growth_interval`` steps without inf or NaN, and shrinks by ``backoff_factor``
    after one with. All but ``update`` may be called in a compiled function.
    """

    # what a recording follows by itself
    _reads_through_evaluator = frozenset({"scale", "unscale_", "step", "update", "get_scale"})

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device != "cpu" and not (device == "cuda" and cuda_is_available()):
            warnings.warn(
                f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available.  "
                "Disabling.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        self._device = device
        self._enabled = enabled
        if not enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._stages: dict[int, tuple[str, bool]] = {}  # id of an optimizer -> (stage, whether inf was found)
        self._started = False

    def scale(self, outputs: Any) -> Any:
        """``outputs``, a tensor or lists of tensors, times the scale. A loss of 16 bits without dims becomes
        float32, which has room for it."""
        if not self._is_on():
            return outputs
        self._started = True
        if isinstance(outputs, Tensor):
            return _scalable(outputs) * self._current()
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(o) for o in outputs]
            return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the parameters by the scale, in place: once between updates."""
        if not self._is_on():
            return
        self._check_started("unscale_")
        stage = self._stage(optimizer)[0]
        if stage == _UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        self._enter(optimizer, _UNSCALED, self._unscale(optimizer))

    def _is_on(self) -> bool:
        return bool(op.CONTEXT.get().evaluator.option(self.__dict__, "_enabled"))

    def _current(self) -> Any:
        return op.CONTEXT.get().evaluator.scalar(self.__dict__, "_scale")

    def _stage(self, optimizer: Any) -> tuple[str, bool]:
        self._stages.setdefault(id(optimizer), (_READY, False))
        return op.CONTEXT.get().evaluator.option(self._stages, id(optimizer))

    def _enter(self, optimizer: Any, stage: str, found: bool) -> None:
        op.CONTEXT.get().evaluator.keep(self._stages, id(optimizer), (stage, found))

    def _unscale(self, optimizer: Any) -> bool:
        """Divide the gradients; whether one of them is inf or NaN."""
        finite: Any = True
        shardings: dict[int, Any] = {}  # of parameters that are shared out, by the processes that share them
        inverse = 1.0 / self._current()
        with jtorch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if p.grad.dtype is jtorch.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    held = p.grad._values() if p.grad.is_sparse else p.grad
                    finite = jtorch.isfinite(held).all() & finite
                    held.mul_(inverse)
                    if (sharding := getattr(p, "sharding", None)) is not None:
                        shardings[id(sharding.group)] = sharding
        for sharding in shardings.values():  # all processes take the step, or none does
            finite = sharding.over_all(finite, "MIN")
        return not bool(finite)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(...)`` on unscaled gradients, unless one is inf or NaN."""
        if not self._is_on():
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_started("step")
        stage = self._stage(optimizer)[0]
        if stage == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage == _READY:
            self.unscale_(optimizer)
        found = self._stage(optimizer)[1]
        result = None if found else optimizer.step(*args, **kwargs)
        self._enter(optimizer, _STEPPED, found)
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """End a step: set the scale, or let it grow or shrink by what was found since the last update."""
        if not self._is_on():
            return
        self._check_started("update")
        afterwards = op.CONTEXT.get().evaluator.afterwards
        if afterwards is None:
            self._update(new_scale)
        else:  # by what the step found, which a compiled function knows when it has ended
            afterwards(GradScaler._update, self, (new_scale,), {}, lambda: [self.__dict__, self._stages])

    def _update(self, new_scale: float | Tensor | None) -> None:
        if new_scale is not None:
            self._scale = float(new_scale)
        elif all(stage == _READY for stage, _ in self._stages.values()):
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(found for _, found in self._stages.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        for each in self._stages:  # in the same dict: compiled steps look there
            self._stages[each] = _READY, False

    def _check_started(self, name: str) -> None:
        if not self._started:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    def get_scale(self) -> float:
        return self._current() if self._is_on() else 1.0

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it changes, as plain numbers; empty where it is switched off."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what ``state_dict()`` gave. Raises RuntimeError for an empty one, of a scaler switched off."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of "
                "GradScaler."
            )
        self._scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
        self._started = True  # the scale is known: gradients that were loaded, too, can be unscaled


def _scalable(output: Tensor) -> Tensor:
    """PyTorch's scale is a float32 tensor without dims: what has none either is multiplied in float32."""
    narrow = output.dtype in (jtorch.float16, jtorch.bfloat16)
    return output.float() if narrow and output.dim() == 0 else output
