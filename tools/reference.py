"""The pages of the API reference, made while mkdocs builds: one a namespace, every public name of it.

What is written in a file as a function or class is left to mkdocstrings, which reads the source. Functions
made from the op table exist at run time alone: their signature and docstring are written out here.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jtorch
from jtorch.eager.examples import EXAMPLES
from tools import stubs
from tools.docstrings import fenced
from tools.signatures import stub_of

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

NAMESPACES = (
    "jtorch", "jtorch.amp", "jtorch.autograd", "jtorch.autograd.functional", "jtorch.distributed",
    "jtorch.distributions", "jtorch.func", "jtorch.futures", "jtorch.linalg", "jtorch.masked",
    "jtorch.special", "jtorch.nn",
    "jtorch.nn.functional", "jtorch.nn.init", "jtorch.nn.utils", "jtorch.nn.utils.parametrizations",
    "jtorch.nn.utils.parametrize", "jtorch.nn.utils.rnn", "jtorch.optim", "jtorch.optim.lr_scheduler",
    "jtorch.optim.swa_utils", "jtorch.testing", "jtorch.training", "jtorch.utils.checkpoint",
    "jtorch.utils.data", "jtorch.vision.datasets", "jtorch.vision.transforms",
)  # fmt: skip
METHODS = "jtorch.Tensor"
_UNTYPED = {": Any = ": "=", ": Any": "", " -> Any: ...": "", ": ...": ""}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Called by mkdocs first: the pages to come take their place in the navigation."""
    assert config.nav is not None
    config.nav.append({"Reference": [f"reference/{name}.md" for name in (METHODS, *NAMESPACES)]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs with the pages it found."""
    from mkdocs.structure.files import File

    for name in NAMESPACES:
        files.append(File.generated(config, f"reference/{name}.md", content=page(name)))
    files.append(File.generated(config, f"reference/{METHODS}.md", content=tensor_page()))
    return files


def page(name: str) -> str:
    """The Markdown of one namespace."""
    module = importlib.import_module(name)
    parts = [f"# {name}\n", inspect.cleandoc(module.__doc__ or "")]
    parts += [_entry(name, member, value) for member, value in sorted(public(module), key=lambda m: m[0])]
    return "\n\n".join(parts) + "\n"


def public(module: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of each function and class of jtorch's own that has its place in this namespace."""
    for name, value in list(vars(module).items()):  # an import below may add to them
        if name.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        if str(value.__module__).startswith("jtorch") and _home(name, value) in (None, module.__name__):
            yield name, value


def _home(name: str, value: Any) -> str | None:
    """The namespace that a name written in a file is shown in, though others import it; None for all."""
    if not _is_written(value, name):
        return None
    around = [n for n in NAMESPACES[1:] if f"{value.__module__}.".startswith(f"{n}.")]
    offering = [n for n in NAMESPACES if vars(importlib.import_module(n)).get(name) is value]
    own = [n for n in around if n in offering]
    return max(own, key=len) if own else offering[0]


def _entry(namespace: str, name: str, value: Any) -> str:
    if _is_written(value, name):
        key = f"{namespace}.{name}".removeprefix("jtorch.")
        example = fenced(f">>> import jtorch\n{EXAMPLES[key]}") if key in EXAMPLES else ""  # not in the file
        return f"::: {value.__module__}.{value.__qualname__}\n\n{example}"
    text = fenced(inspect.getdoc(value) or "")
    title = f"## {name} {{ #{namespace}.{name} }}"
    if inspect.isclass(value):
        return f"{title}\n\n{text}"
    signature = _shortened(stub_of(value, name, method=False, result=stubs.result_of(name, value)))
    return f"{title}\n\n```python\n{signature}\n```\n\n{text}"


def tensor_page() -> str:
    """The Markdown of the methods that the op table and its neighbours give to Tensor."""
    parts = ["# jtorch.Tensor: methods", "Those written in the class itself stand [there](jtorch.md)."]
    for name in stubs.installed():
        value = inspect.getattr_static(jtorch.Tensor, name)
        if name.startswith("_") or not inspect.isfunction(value):
            continue
        text = fenced(inspect.getdoc(value) or "")
        signature = _shortened(stubs.declaration(name)[0])
        parts.append(f"## {name} {{ #jtorch.Tensor.{name} }}\n\n```python\n{signature}\n```\n\n{text}")
    return "\n\n".join(parts) + "\n"


def _shortened(declaration: str) -> str:
    """A line of a stub for readers: without what says nothing."""
    text = declaration.removeprefix("def ")
    for old, new in _UNTYPED.items():
        text = text.replace(old, new)
    return text


def _is_written(value: Any, name: str) -> bool:
    """Whether a file has it as a function or class of this name, where mkdocstrings finds it."""
    return value.__qualname__ == name and name in _written(value.__module__)


@functools.cache
def _written(module: str) -> set[str]:
    source = inspect.getsource(importlib.import_module(module))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(source).body if isinstance(node, kinds)}
