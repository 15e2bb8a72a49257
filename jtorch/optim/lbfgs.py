"""L-BFGS: a quasi-Newton method of limited memory.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.LBFGS.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.compiler import is_compiling
from jtorch.core.errors import CompileError
from jtorch.eager.public import Tensor, enable_grad, no_grad, ops, zeros_like
from jtorch.optim.line_search import Point, strong_wolfe
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.options import check_rate, refuse_parts


class LBFGS(Optimizer):
    """Liu and Nocedal 1989: several evaluations of the closure in each step, one group of parameters.

    State (under the first parameter): "func_evals", "n_iter", "d" (the last direction), "t" (its length),
    "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss". Raises ValueError for a second
    group, RuntimeError for a ``line_search_fn`` other than "strong_wolfe". How many evaluations a step
    takes depends on the losses, so compiled code cannot step it: compile the closure instead.

    >>> import jtorch
    >>> w = jtorch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = jtorch.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 3) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()  # the loss at the start
    29.0
    >>> print([round(x, 3) for x in w.tolist()])
    [3.0, 3.0]
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        options = {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, options)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Minimise for up to ``max_iter`` rounds; returns what the first call of ``closure`` gave."""
        if is_compiling():
            raise CompileError(
                "LBFGS.step looks at the losses to decide how to go on, which a recording would not. Call it "
                "outside, and compile the closure that it gets."
            )
        refuse_parts("LBFGS", self.param_groups[0]["params"])
        with no_grad():
            return self._step(closure)

    def _step(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = _with_grad(closure)
        loss, gradient = float(first), self._gradient()
        state["func_evals"] += 1
        if float(gradient.abs().max()) <= group["tolerance_grad"]:
            return first
        evaluations = 1
        for k in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            _choose_direction(state, gradient, group["history_size"])
            direction: Tensor = state["d"]
            state["prev_flat_grad"], state["prev_loss"] = gradient, loss
            lr = float(group["lr"])
            t = min(1.0, 1.0 / float(gradient.abs().sum())) * lr if state["n_iter"] == 1 else lr
            state["t"] = t
            slope = float(gradient.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            here = Point(0.0, loss, gradient, slope)
            new, calls = self._move(closure, here, t, direction, group["max_eval"] - evaluations, k)
            state["t"], loss, gradient = new.t, new.loss, new.gradient
            evaluations += calls
            state["func_evals"] += calls
            if k == group["max_iter"] or evaluations >= group["max_eval"]:
                break
            if _converged(group, state, gradient, loss):
                break
        return first

    def _move(
        self, closure: Callable, here: Point, t: float, direction: Tensor, left: int, k: int
    ) -> tuple[Point, int]:
        """Move the parameters along ``direction``: (the point reached, evaluations)."""
        group = self.param_groups[0]
        if group["line_search_fn"] is None:
            self._add(t, direction)
            if k == group["max_iter"]:  # nobody would use another gradient
                return here._replace(t=t), 0
            return Point(t, float(_with_grad(closure)), self._gradient(), 0.0), 1
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        before = [p.clone() for p in group["params"]]

        def evaluate(t: float) -> tuple[float, Tensor]:
            self._add(t, direction)
            found = float(_with_grad(closure)), self._gradient()
            for p, old in zip(group["params"], before, strict=True):
                p.copy_(old)
            return found

        new, calls = strong_wolfe(evaluate, here, t, direction, group["tolerance_change"], left)
        self._add(new.t, direction)
        return new, calls

    def _gradient(self) -> Tensor:
        """All gradients as one vector in memory of its own."""
        parts = []
        for p in self.param_groups[0]["params"]:
            grad = zeros_like(p) if p.grad is None else p.grad
            parts.append((grad.to_dense() if grad.is_sparse else grad).reshape(-1))
        return ops.cat(*parts, axis=0)

    def _add(self, t: float, direction: Tensor) -> None:
        start = 0
        for p in self.param_groups[0]["params"]:
            p.add_(direction[start : start + p.numel()].reshape(p.shape) * t)
            start += p.numel()


def _with_grad(closure: Callable[[], Any]) -> Any:
    with enable_grad():
        return closure()


def _choose_direction(state: dict[str, Any], gradient: Tensor, history_size: int) -> None:
    """Put into the state the direction -H g, with H from the last changes of position and gradient."""
    if state["n_iter"] == 1:
        state.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return
    change, step = gradient - state["prev_flat_grad"], state["d"] * float(state["t"])
    changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    curvature = float(change.dot(step))
    if curvature > 1e-10:
        if len(changes) == history_size:
            for history in (changes, steps, ro):
                history.pop(0)
        changes.append(change)
        steps.append(step)
        ro.append(1.0 / curvature)
        state["H_diag"] = curvature / float(change.dot(change))
    weights = [0.0] * len(changes)
    q = -gradient
    for k in reversed(range(len(changes))):
        weights[k] = float(steps[k].dot(q)) * float(ro[k])
        q = q - changes[k] * weights[k]
    q = q * float(state["H_diag"])
    for k in range(len(changes)):
        q = q + steps[k] * (weights[k] - float(changes[k].dot(q)) * float(ro[k]))
    state["d"] = q
    state["al"] = weights + [None] * (history_size - len(weights))  # PyTorch's place for them


def _converged(group: dict[str, Any], state: dict[str, Any], gradient: Tensor, loss: float) -> bool:
    if float(gradient.abs().max()) <= group["tolerance_grad"]:
        return True
    moved = float((state["d"] * state["t"]).abs().max())
    return moved <= group["tolerance_change"] or abs(loss - state["prev_loss"]) < group["tolerance_change"]
