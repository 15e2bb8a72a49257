"""What jtorch lacks of PyTorch, and what is told about it."""

from __future__ import annotations

import ast
import dis
import linecache
from types import FrameType
from typing import Any

PLANNED = {
    "torch.onnx": "export: planned",
}
NOT_PLANNED = {
    "torch.ao": "quantisation: not planned",
    "torch.distributed.checkpoint": "planners, and storages but folders: not planned",
    "torch.distributed.device_mesh": "tensor parallelism: not planned",
    "torch.distributed.fsdp": "the first version of FSDP: not planned, see fully_shard",
    "torch.distributed.fsdp.wrap": "the first version of FSDP: not planned, see fully_shard",
    "torch.distributed.pipelining": "pipeline parallelism: not planned",
    "torch.distributed.rpc": "remote calls: not planned",
    "torch.distributed.tensor": "tensor parallelism: not planned",
    "torch.export": "torch's graph format: not planned, see torch.onnx and jtorch.compile",
    "torch.fx": "torch's graph format: not planned, see jtorch.compile",
    "torch.hub": "downloads of code: not planned",
    "torch.jit": "TorchScript: not planned, see jtorch.compile",
    "torch.library": "ops in C++: not planned, see jtorch.core.op",
    "torch.masked": "masked tensors: not planned, see the functions of torch.masked",
    "torch.nested": "nested tensors: not planned",
    "torch.quantization": "quantisation: not planned",
    "torch.sparse": "sparse tensors: not planned",
    "torch.utils.bottleneck": "not planned",
    "torch.utils.cpp_extension": "ops in C++: not planned, see jtorch.core.op",
    "torch.utils.mobile_optimizer": "not planned",
    "torch._dynamo": "PyTorch's compiler: not planned, see jtorch.compile",
    "torch._inductor": "PyTorch's compiler: not planned, see jtorch.compile",
    "torchvision.models": "networks but ResNets, and trained weights: not planned",
    "torchvision.io": "video and image files: not planned, see torchvision.datasets and PIL",
    "torchvision.ops": "detection ops: not planned",
}


def reason(name: str) -> str:
    """Whether a name is planned: of the longest entry of the tables that it belongs to."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        entry = ".".join(parts[:end])
        for table in (PLANNED, NOT_PLANNED):
            if entry in table:
                return table[entry]
    return "not in jtorch yet"


def sentence(name: str, place: str) -> str:
    """``jtorch has no torch.fft.rfft (train.py:12): Fourier transforms: planned``"""
    return f"jtorch has no {name} ({place}): {reason(name)}"


def place_of(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def is_import(frame: FrameType) -> bool:
    """Whether the frame is at a ``from module import name``."""
    code = frame.f_code.co_code
    return frame.f_lasti >= 0 and code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]


def whole_name(frame: FrameType, name: str) -> str:
    """``torch.fft.rfft`` where the line says so and ``torch.fft`` is what is missing."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    attribute = name.rpartition(".")[2]
    for text in (line, line.rstrip(":") + ": pass" if line.endswith(":") else line):
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        chains = [chain(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        found = max((c for c in chains if attribute in c[1:]), key=len, default=None)
        if found:
            return ".".join([name, *found[found.index(attribute, 1) + 1 :]])
    return name


def chain(node: Any) -> list[str]:
    """The names of ``a.b.c``; empty where it does not begin with a plain name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []
