"""What notebooks show of tensors, modules and optimizers: a line that unfolds. All text is escaped."""

from __future__ import annotations

from html import escape
from typing import Any

from jtorch.viz.tape import type_text

_MONO = "font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px"


def tensor_html(tensor: Any) -> str:
    """Its dtype and shape, and the elements as it prints."""
    facts = [type_text(tensor)]
    if tensor.grad_fn is not None:
        facts.append(tensor.grad_fn.name())
    elif tensor.requires_grad:
        facts.append("requires grad")
    return _fold(f"Tensor {', '.join(facts)}", f'<pre style="margin: 4px 0">{escape(repr(tensor))}</pre>')


def module_html(module: Any, name: str = "") -> str:
    """Its class and parameters, and its children, each of which unfolds."""
    count = sum(p.numel() for p in module.parameters())
    title = f"{name + ': ' if name else ''}{module._get_name()}({module.extra_repr()})"
    title += f", {count:,} parameters" if count else ""
    children = "".join(module_html(m, key) for key, m in module.named_children())
    own = "".join(_line(f"{key}: {type_text(p)}") for key, p in module.named_parameters(recurse=False))
    return _fold(title, own + children) if own or children else _line(title)


def optimizer_html(optimizer: Any) -> str:
    """Its class, and the settings of each group."""
    groups = []
    for k, group in enumerate(optimizer.param_groups):
        settings = "".join(_line(f"{key}: {group[key]}") for key in sorted(group) if key != "params")
        groups.append(_fold(f"group {k}, {len(group['params'])} tensors", settings))
    return _fold(f"{type(optimizer).__name__}, {len(groups)} parameter groups", "".join(groups))


def _fold(title: str, inside: str) -> str:
    return (
        f'<details style="{_MONO}"><summary>{escape(title)}</summary>'
        f'<div style="margin-left: 1.5em">{inside}</div></details>'
    )


def _line(text: str) -> str:
    return f'<div style="{_MONO}">{escape(text)}</div>'
