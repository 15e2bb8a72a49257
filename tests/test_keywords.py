"""Every name of a parameter in PyTorch's signatures is one of jtorch's, or is listed with the reason.

PyTorch's names are read from the stubs of its compiled functions, from the schemas of ``linalg`` and
``special``, and from Python's own signatures. A name is taken where a call with it
fails for another reason than the name.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from pathlib import Path

import pytest

import jtorch
from jtorch.ops.polynomials import DEGREES
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

SPACES = (
    "", "fft", "linalg", "masked", "signal.windows", "special", "nn", "nn.functional", "nn.init", "nn.utils",
    "nn.utils.rnn",
    "nn.utils.parametrize", "nn.utils.prune", "nn.utils.parametrizations", "nn.attention", "optim",
    "optim.lr_scheduler", "optim.swa_utils", "autograd", "autograd.functional", "utils.data",
    "utils.checkpoint", "utils.dlpack", "distributions", "func", "random", "amp", "testing",
)  # fmt: skip

NUMBER_FIRST = "names the number of an overload whose first argument is no tensor; here it is `input`, too"
PYTORCH_REFUSES = "is in PyTorch's stubs, and its functions refuse it"
NO_OTHER_DTYPE = "the dtype of a product beside that of its factors, which PyTorch has on GPUs alone"
INTERNAL = "is internal to PyTorch"
EXCEPTIONS = {
    **dict.fromkeys(
        [f"{f}(self)" for f in (
            "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
            "bucketize", "float_power", "pow", "remainder", "searchsorted", "where", "xlogy",
        )],
        NUMBER_FIRST,
    ),
    **dict.fromkeys(
        [f"{f}(self)" for f in (
            "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "baddbmm", "numel", "sub",
        )]
        + ["Tensor.add(out)", "Tensor.sub(out)", "Tensor.true_divide(out)", "Tensor.requires_grad_(mode)",
           "Tensor.new_tensor(pin_memory)", "Tensor.new(other)", "full(names)", "from_numpy(ndarray)",
           "set_flush_denormal(mode)", "set_num_interop_threads(num)", "set_num_threads(num)",
           "sspaddmm(self)"],
        PYTORCH_REFUSES,
    ),
    **dict.fromkeys([f"{f}(out_dtype)" for f in ("addmm", "baddbmm", "bmm", "mm")], NO_OTHER_DTYPE),
    **dict.fromkeys(["hspmm(out)", "sspaddmm(out)"], "writes sparse tensors, which are made anew here"),
    "Tensor.expand(implicit)": INTERNAL,
    **dict.fromkeys(["Tensor.to_sparse(blocksize)", "Tensor.to_sparse(dense_dim)"], "is about blocks"),
    "Tensor.new(storage)": "makes a tensor over a storage, of which there is none to make one of",
    "layer_norm(cudnn_enable)": "is about a library for GPUs",
    "func.jacrev(_preallocate_and_copy)": INTERNAL,
    "enable_grad(orig_func)": "is what a decorator without parentheses is given",
    "autograd.enable_grad(orig_func)": "is what a decorator without parentheses is given",
    "nn.UninitializedBuffer(persistent)": "is told to register_buffer",
    **dict.fromkeys(
        [f"compile({n})" for n in ("name", "recompile_limit", "isolate_recompiles", "shapes_spec")],
        "is about how PyTorch's compiler works",
    ),
    **dict.fromkeys(
        [f"special.{f}(x)" for f in (
            "airy_ai", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
            *DEGREES,
        )],
        "is called `input` in PyTorch's documentation, as here",
    ),
}  # fmt: skip


def stub(name: str, of_class: str | None = None) -> dict[str, set[str]]:
    """The parameters' names, of all overloads together, of each function in a stub of PyTorch's."""
    body = ast.parse((Path(torch.__file__).parent / "_C" / name).read_text()).body
    if of_class is not None:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == of_class).body
    found: dict[str, set[str]] = {}
    for n in body:
        if isinstance(n, ast.FunctionDef):
            arguments = [*n.args.posonlyargs, *n.args.args][of_class is not None :]
            names = {a.arg for a in (*arguments, *n.args.kwonlyargs)}
            found.setdefault(n.name, set()).update(names)
    return found


def schema(space: str, name: str) -> set[str]:
    packet = getattr(torch.ops.aten, f"{space}_{name}", None)
    arguments = (
        [a for o in packet.overloads() for a in getattr(packet, o)._schema.arguments] if packet else []
    )
    return {"input" if a.name == "self" else a.name for a in arguments if not a.is_out}


def signature(function, skip: int = 0) -> set[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except (ValueError, TypeError):
        return set()
    return {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


class Odd:
    """A value that nothing can work with."""


def takes(function, name: str, *first) -> bool:
    """Whether ``function`` knows a parameter of that name."""
    try:
        function(*first, **{name: Odd()})
    except TypeError as error:
        text = str(error)
        return not any(t in text for t in ("unexpected keyword", "no keyword", "positional-only arguments"))
    except Exception:
        return True
    return True


def functions(space: str):
    """(name, PyTorch's, ours) of what both have in a module."""
    theirs, ours = (importlib.import_module(f"{lib}.{space}".rstrip(".")) for lib in ("torch", "jtorch"))
    for name in sorted(set(dir(theirs)) & set(dir(ours))):
        a, b = getattr(theirs, name), getattr(ours, name)
        if not name.startswith("_") and callable(a) and callable(b) and not isinstance(a, types.ModuleType):
            yield name, a, b


def refused() -> set[str]:
    found = set()
    methods, compiled = stub("__init__.pyi", "TensorBase"), stub("_VariableFunctions.pyi")
    x = jtorch.ones(2, 2)
    for name in sorted(set(dir(torch.Tensor)) & set(dir(jtorch.Tensor))):
        theirs, ours = getattr(torch.Tensor, name), getattr(jtorch.Tensor, name)
        if not name.startswith("_") and callable(ours):
            wanted = methods.get(name) or signature(theirs, skip=1)
            found |= {f"Tensor.{name}({n})" for n in wanted if not takes(ours, n, x)}
    for space in SPACES:
        for name, theirs, ours in functions(space):
            if isinstance(theirs, type):
                wanted = signature(theirs)
                named = signature(ours)
                odd = wanted - named if named else {n for n in wanted if not takes(ours, n)}
                if odd and inspect.signature(ours).parameters.keys() & {"args", "kwargs"}:
                    odd = {n for n in odd if not takes(ours, n)}
            else:
                wanted = (compiled.get(name) if space == "" else None) or signature(theirs)
                wanted = wanted or (schema(space, name) if space in ("linalg", "special") else set())
                odd = {n for n in wanted if not takes(ours, n)}
            found |= {f"{space}.{name}({n})".lstrip(".") for n in odd}
    return found


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_every_name_is_taken_or_listed():
    found = refused()
    assert found - EXCEPTIONS.keys() == set(), "names of PyTorch's that jtorch refuses"
    assert EXCEPTIONS.keys() - found == set(), "listed, and no longer refused"


CALLS = """
x.view(size=(4,)) | x.view(dtype=torch.int32) | x.reshape(shape=(4,))
torch.reshape(input=x, shape=(-1,)) | x.permute(dims=(1, 0)) | torch.permute(input=x, dims=(1, 0))
x.expand(size=(2, 2, 2)) | x.tile(dims=(2, 1)) | x.repeat(repeats=(2, 1))
torch.tile(input=x, dims=(2,)) | x.new(size=(1,)).shape | x.split(split_size=1)
x.split(split_size=[1, 1], dim=1) | torch.split(tensor=x, split_size_or_sections=1, dim=1)
x.tensor_split(tensor_indices_or_sections=torch.tensor([1])) | x.tensor_split(indices=[1])
x.tensor_split(sections=2) | x.sum(dim=0, keepdim=True, dtype=torch.float64)
torch.sum(input=x, dim=(0, 1), keepdim=False) | torch.isin(elements=x, test_element=1)
torch.isin(element=1, test_elements=x) | torch.result_type(tensor=x, other=x)
torch.result_type(scalar=1.0, tensor=x) | torch.result_type(scalar1=1, scalar2=2)
torch.result_type(tensor=x, other=2) | x.is_contiguous(memory_format=torch.contiguous_format)
x.t().is_contiguous(memory_format=torch.preserve_format)
torch.ones(2, 3, 4, 5).is_contiguous(memory_format=torch.channels_last)
torch.ones(2, 4, 5, 3).permute(0, 3, 1, 2).is_contiguous(memory_format=torch.channels_last)
x.clone().copy_(other=x * 2) | torch.true_divide(input=x, other=x + 1) | x.true_divide(other=x + 1)
torch.cholesky_inverse(input=torch.eye(2)) | x.cholesky_solve(input2=torch.eye(2)) | torch.det(input=x)
torch.slogdet(input=x) | torch.matrix_exp(input=x * 0) | torch.linalg.det(A=x)
torch.linalg.norm(input=x) | torch.linalg.cond(input=x)
torch.linalg.eigvalsh(input=x, out=torch.empty(2)) | torch.linalg.pinv(input=x)
torch.linalg.cholesky(input=torch.eye(2)) | torch.linalg.matrix_norm(input=x)
torch.linalg.vector_norm(x=x) | torch.linalg.inv(A=x, out=torch.empty(2, 2))
torch.linalg.qr(A=x, out=(torch.empty(2, 2), torch.empty(2, 2)))
torch.linalg.slogdet(A=x, out=(torch.empty(()), torch.empty(())))
torch.linalg.svdvals(A=x, out=torch.empty(2))
torch.linalg.matmul(input=x, other=x, out=torch.empty(2, 2))
torch.linalg.solve(A=x, B=x, out=torch.empty(2, 2)) | torch.linalg.tensorsolve(input=x, other=x[0])
torch.linalg.tensorinv(input=x, ind=1) | torch.linalg.matrix_exp(input=x * 0)
torch.zero_(input=x.clone()) | torch.fill_(input=x.clone(), value=2.0)
torch.is_same_size(input=x, other=x)
torch.index_put_(input=x.clone(), indices=(torch.tensor([0]),), values=torch.ones(2))
torch.is_conj(input=x) | torch.resize_as_(input=x.clone(), the_template=x[:1])
torch.detach_(input=x * 2) | torch.scalar_tensor(2, layout=torch.strided, pin_memory=False)
torch.tril_indices(2, 2, requires_grad=False)
torch.triu_indices(2, 2, pin_memory=False, layout=torch.strided)
""".replace("\n", "|").split("|")

NUMPYS = """
cat tensors=[x] | stack tensors=[x] | softmax x | max x | min x | unbind x | chunk x, 2 | var x | std x
logsumexp x | quantile x, 0.5 | topk x, 1 | diff x | cumsum x | cumprod x | tensor_split x, 2 | nansum x
count_nonzero x | unsqueeze x | squeeze x | renorm x, p=2, maxnorm=1.0 | repeat_interleave x, 2 | sort x
argsort x | argmax x | sum x | prod x | mean x | amax x | all x | any x | median x | kthvalue x, 1
select x, index=0 | narrow x, start=0, length=1 | index_select x, index=torch.tensor([0])
take_along_dim x, torch.tensor([[0]])
""".replace("\n", "|").split("|")


def value(made):
    if hasattr(made, "tolist"):
        numbers = [round(float(v), 4) for v in made.reshape(-1).tolist()]
        return str(made.dtype).rpartition(".")[2], tuple(made.shape), numbers
    return [value(part) for part in made] if isinstance(made, (tuple, list)) else str(made).rpartition(".")[2]


def called(library, call: str):
    return value(eval(call, {"torch": library, "x": library.tensor([[1.0, 2.0], [3.0, 4.5]])}))


@needs_torch
def test_calls_by_keyword_give_what_pytorchs_do():
    calls = [call.strip() for call in CALLS if call.strip()]
    for entry in filter(None, map(str.strip, NUMPYS)):
        name, _, rest = entry.partition(" ")
        calls.append(f"torch.{name}({rest}, axis=0)")
    different = [
        (c, called(jtorch, c), called(torch, c)) for c in calls if called(jtorch, c) != called(torch, c)
    ]
    assert not different, "\n".join(map(str, different))


def test_numbers_given_twice_are_an_error():
    x = jtorch.ones(2, 2)
    for call in (
        lambda: x.view(4, size=(4,)), lambda: x.reshape(4, shape=(4,)), lambda: x.permute(0, 1, dims=(0, 1)),
        lambda: x.expand(2, 2, size=(2, 2)), lambda: x.repeat(1, 1, repeats=(1, 1)),
        lambda: x.tile(2, dims=(2,)),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="got multiple values for argument"):
            call()


def test_save_takes_what_pytorchs_takes(tmp_path):
    import pickle

    path = tmp_path / "x.pt"
    jtorch.save([1], path, pickle, 4, _use_new_zipfile_serialization=True)
    assert jtorch.load(path) == [1]
    with pytest.raises(NotImplementedError, match=r"before 1\.6"):
        jtorch.save([1], path, _use_new_zipfile_serialization=False)
    with pytest.raises(NotImplementedError, match="pickle_module"):
        jtorch.save([1], path, pickle_module=ast)
