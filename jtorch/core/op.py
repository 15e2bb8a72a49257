"""One op, one declaration: the table of ops, the decorators that fill it, and ``bind``.

An op is declared by a *body* written against an array namespace ``xp``. Run with NumPy's namespace the
body computes; run with the tracer's it records; run with the Tensors' own it differentiates again. The
gradient (``vjp``) is written once, against the same namespace.

    @elementwise(text="{x} * {y}")
    def mul(xp, x, y):
        return xp.mul(x, y)

    @mul.vjp
    def _(xp, g, x, y): ...

The parameter names of a vjp are the save list: ``out`` (or ``out0``, ``out1``) saves an output, an
argument's name saves that argument, ``x_shape`` and ``x_dtype`` only those, a static's name its value, and
``needs`` a tuple that says which arguments want a gradient. What is not named is not kept.

Kinds say what an op must state; passes ask ``op.kind`` and never a name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from jtorch.core.casting import CLASSES, OFF, Casting, Policy, casts, policy_of
from jtorch.core.errors import CompileError, user_source
from jtorch.core.failure import Failure

CASTING = ("promote", "float", "compare", "where", "floating", "sum")  # rules of dtypes that cast arguments

# How a reduction combines two values: what kernels know to write.
COMBINATIONS = ("add", "mul", "maximum", "minimum", "argmax", "argmin", "logical_or", "logical_and")


class Kind(Enum):
    ELEMENTWISE = "elementwise"  # one output element from one element of each input
    REDUCTION = "reduction"  # axes disappear under an associative combination
    VIEW = "view"  # moves elements, computes nothing
    CONTRACTION = "contraction"  # a matrix product
    OPAQUE = "opaque"  # a library call
    SCAN = "scan"  # a loop over the first axis, whose turn is over other ops: see ``Scan``
    COMPOSITE = "composite"  # a body over other ops: one node on the tape, many in the graph


class ContractionAxes(NamedTuple):
    """What a product does with the axes of its factors.

    In ``batch`` and ``inner`` axes of x and y stand in pairs; a batch axis that one factor has not is None.
    The result has batch, rows, columns, in the order of ``out``: its axis j is number ``out[j]`` of these.
    """

    batch: tuple[tuple[int | None, int | None], ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    inner: tuple[tuple[int, int], ...]
    out: tuple[int, ...]


class Scan(NamedTuple):
    """A loop over the first axis, as ``jax.lax.scan``: ``turn(xp, carries, constants, xs, *options)`` gives
    the outputs of one step, of which those in ``carried`` are the next one's carries.

    An op that is one has all of these as inputs, in this order, and the outputs of all steps, stacked; its
    statics are how many ``constants`` there are, whether it goes in ``reverse``, and the ``options``. Of all
    but the constants the rows, the first axis in a step, have nothing to do with each other: threads go
    through all steps with some of them each.

    A turn that is a ``graph``, of a user's function, has no such rows, nor options; of what it carries its
    outputs are the two latest ones, the last one first, and the static ``steps`` says how many there are.
    Outputs that are ``checked`` may be errors, and are computed even if nobody reads them. ``like(graph,
    checked=None)`` is the op of another graph in its place. Where it ``ends`` early, the output behind what
    is carried is of the last step alone: an int64 below 0 where no other one followed. Where it ``skips``
    some, its first constant says how many steps are left out before the first one. Steps that are not taken
    write nothing, and of two latest ones those of step k are number ``(steps - 1 - k) % 2``.
    """

    turn: Callable
    carried: tuple[int, ...]
    graph: Any = None
    checked: tuple[int, ...] = ()
    like: Callable | None = None
    ends: bool = False
    skips: bool = False

    @property
    def takes_all_steps(self) -> bool:
        """Whether the number of steps follows from sizes alone."""
        return not (self.ends or self.skips)

    def parted(self, values: Sequence[Any], constants: int) -> tuple[Sequence, Sequence, Sequence]:
        """(carries, constants, what moves from step to step), of the op's inputs."""
        n = len(self.carried)
        return values[:n], values[n : n + constants], values[n + constants :]


class Op:
    """One declared op. Those of the table are made by the decorators of this module; others are of recordings
    alone."""

    def __init__(self, kind: Kind, body: Callable, **facts: Any) -> None:
        self.kind = kind
        self.body = body
        self.name: str = facts.pop("name", None) or body.__name__.rstrip("_")
        self.index = len(TABLE)
        names, self.variadic, self.statics = _parameters(body)
        self.defaults = {k: v for k, v in self.statics.items() if v is not inspect.Parameter.empty}
        self.arrays = names[1:]  # a variadic one is the last
        self.n_outputs: int = facts.pop("n_outputs", 1)
        self.dtype: str | Callable = facts.pop("dtype", "promote")
        self.text: str | None = facts.pop("text", None)  # scalar text, for kernels
        self.integer_text: str | None = facts.pop("integer_text", None)
        self.takes_root: bool = facts.pop("takes_root", False)  # which is one instruction, and a slow one
        # takes longer than reading its arguments, as what calls a function does
        self.costly: bool = facts.pop("costly", self.takes_root)
        self.check: tuple[str, Failure] | None = facts.pop("check", None)  # (the test for it, how it fails)
        self.may_raise: bool = facts.pop("may_raise", False)  # opaque: for some elements
        # opaque: (shapes, **statics) -> (input, bound) for those whose elements must be in range(bound)
        self.positions: Callable | None = facts.pop("positions", None)
        # opaque: (array for the output, *inputs) -> what ``wait()``s for it; runs in the background
        self.start: Callable | None = facts.pop("start", None)
        # of a recording: what the body does, of arrays where they lie, be that a device; it may take and give
        # some of either
        self.there: Callable | None = facts.pop("there", None)
        self.scan: Scan | None = facts.pop("scan", None)  # the loop that it is
        self.combine: str | None = facts.pop("combine", None)  # of a reduction
        self.identity: Any = facts.pop("identity", None)
        self.shape: Callable | None = facts.pop("shape", None)  # (*shapes, **statics) -> shape
        self.affine: Callable | None = facts.pop("affine", None)  # view as strides, see ops/__init__.py
        self.strides: Callable | None = facts.pop("strides", None)  # those asked for, where affine says 0
        self.index_map: Callable | None = facts.pop("index_map", None)  # view as an index program
        # contraction: (axes of x, axes of y, **statics) -> ``ContractionAxes``
        self.contracted: Callable | None = facts.pop("contracted", None)
        # view that writes each of its inputs, of one shape, into every so manyth place of its output:
        # (number of axes, **statics) -> for each (first place along each axis, step along each axis)
        self.woven: Callable | None = facts.pop("woven", None)
        # view: the static that names the axis along which its inputs lie one after the other
        self.joins: str | None = facts.pop("joins", None)
        # the statics that count axes of its inputs from the first: with one more in front each is one further
        counts = {"axis", "keepdims"} <= self.statics.keys()
        self.axes: tuple[str, ...] = facts.pop("axes", ("axis",) if counts else ())
        self.leads: bool = facts.pop("leads", False)  # about the last axes: any others may stand in front
        self.relabels: bool = facts.pop("relabels", False)  # view: same elements in the same order
        # view: all elements of its input, each once, whatever the sizes
        self.keeps_all: bool = facts.pop("keeps_all", self.relabels)
        self.put: Callable | None = facts.pop("put", None)  # view's write-through, on ``xp``
        self.scatter: Callable | None = facts.pop("scatter", None)  # reduction: where elements go
        self.draws: bool = facts.pop("draws", False)  # elementwise: makes a random number of 64 bits
        self.commutes: bool = facts.pop("commutes", False)
        self.differentiable: bool = facts.pop("differentiable", True)
        self.grad_name: str = facts.pop("grad_name", None) or _grad_name(self.name)
        self.public: str | None = facts.pop("public", self.name)  # name of the public function
        self.methods: tuple[str, ...] = facts.pop("methods", (self.name,) if self.public else ())
        self.tensors_only: bool = facts.pop("tensors_only", False)  # a number beside tensors is an error
        self.hidden: int = facts.pop("hidden", 0)  # trailing outputs only the vjp sees
        self.ordered: bool = facts.pop("ordered", False)  # compares: complex numbers can't
        # the sentence of the error for tensors of bools, see ``messages.check_bools``
        self.refuses_bools: str | None = facts.pop("refuses_bools", None)
        # (xp, *values) -> what is computed instead where numbers stand among the values, or None
        self.beside_numbers: Callable | None = facts.pop("beside_numbers", None)
        self.holomorphic: bool = facts.pop("holomorphic", True)  # see ``node.complex_class``
        self.aliases: bool = facts.pop("aliases", kind is Kind.VIEW)  # the result shares memory
        # how eager mode lays a result out: "operands" as a loop over them, "copy" as the one, "rows" in order
        loops = kind in (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.COMPOSITE)
        self.layout: str = facts.pop("layout", "operands" if loops else "rows")
        self.in_place: bool = facts.pop("in_place", False)  # has an ``op_`` method
        self.renames: str | None = facts.pop("renames", None)  # composite: the primitive it is
        self.samples: Callable | None = facts.pop("samples", None)  # sample inputs for the tests
        self.like_first: bool = facts.pop("like_first", False)  # 16-bit x: computed in 32, result as x
        # whether what it saves is enough for its gradient in 16 bits: then it is one op of these
        self.narrow: bool = facts.pop("narrow", kind is not Kind.OPAQUE)
        # beside 16 bits numbers and 0-d tensors in these places take part as they are, in float32; so do
        # numbers in the other place of an op that commutes. PyTorch was tried for which these are.
        self.unrounded: tuple[str, ...] = facts.pop("unrounded", ())
        # a number beside integers and 16 bits must be one that their dtype holds
        self.fitting: bool = facts.pop("fitting", False)
        # what autocast has it compute in: one of ``casting.CLASSES``, or {device: class}; None: in the
        # dtypes of its arguments
        self.autocast: Policy | None = policy_of(facts.pop("autocast", None))
        # {"x": "y"}: x is saved only for the gradient of y, so x may change in place where y needs none
        self.saved_for: dict[str, str] = facts.pop("saved_for", {})
        # whether kernels compute it over large arrays in eager mode, or of any size: see eager/formulas.py
        formula = kind is Kind.COMPOSITE and self.differentiable and not (self.aliases or self.variadic)
        self.fuses_small: bool = facts.pop("fuses_small", False)
        # a reduction: over all axes, or where rows are wide; along narrow ones NumPy is faster
        self.fuses_wide: bool = facts.pop("fuses_wide", False)
        self.fuses: bool = facts.pop("fuses", formula) or self.fuses_small or self.fuses_wide
        if facts:
            raise TypeError(f"op {self.name!r}: unknown facts {sorted(facts)}")
        self.vjp_function: Callable | None = None
        self.save_list: tuple[str, ...] = ()
        self.face_function: Callable | None = None
        self.lean = False
        self.usual_face: tuple[str, str] | None = None
        self.narrows: Op | None = None  # what it is one op of 16 bits of, see ``narrow.py``
        self._check_declaration()

    def _check_declaration(self) -> None:
        places = self.affine or self.index_map or self.woven
        missing = {
            Kind.ELEMENTWISE: (),  # without a text it is a library call
            Kind.REDUCTION: () if self.scatter or self.combine else ("combine",),
            Kind.VIEW: () if self.shape and places else ("shape", "affine"),
            Kind.CONTRACTION: () if self.shape and self.contracted else ("shape", "contracted"),
            Kind.OPAQUE: () if self.shape else ("shape",),
            Kind.SCAN: () if self.shape and self.scan else ("shape", "scan"),
            Kind.COMPOSITE: (),
        }[self.kind]
        if missing:
            raise TypeError(f"op {self.name!r} of kind {self.kind.value} must state {missing}")
        if self.combine not in (None, *COMBINATIONS):
            known = ", ".join(COMBINATIONS)
            raise TypeError(f"op {self.name!r}: combine={self.combine!r} is none of {known}")
        if self.autocast is not None and not {*self.autocast} <= {None, *CLASSES}:
            raise TypeError(f"op {self.name!r}: autocast={self.autocast!r} is none of {', '.join(CLASSES)}")

    def vjp(self, function: Callable) -> Callable:
        """Declare the gradient: ``function(xp, g, <saved...>)`` gives one value per array argument."""
        names = list(_parameters(function)[0])
        if names[:2] != ["xp", "g"]:
            raise TypeError(f"the vjp of {self.name!r} must begin with (xp, g), not {names[:2]}")
        known = {*self.arrays, *self.statics, "needs", "out"}
        known |= {f"out{k}" for k in range(self.n_outputs)}
        known |= {f"{a}_{fact}" for a in self.arrays for fact in ("shape", "dtype")}
        unknown = [n for n in names[2:] if n not in known]
        if unknown:
            raise TypeError(f"the vjp of {self.name!r} names {unknown}; it can save {sorted(known)}")
        self.vjp_function = function
        self.save_list = tuple(names[2:])
        return function

    def face(self, function: Callable) -> Callable:
        """Declare the public signature: a function from PyTorch's arguments to (arrays, statics)."""
        self.face_function = function
        return function

    def lean_face(self, usual: tuple[str, str] | None = None) -> Callable:
        """The same for ops whose call must cost little: arrays and statics as one flat tuple, in order.

        ``usual`` is the text of a test of the arguments and of what the face gives where it holds: most calls
        are spared the face.
        """
        self.lean, self.usual_face = True, usual
        return self.face

    def __repr__(self) -> str:
        return f"<op {self.name} ({self.kind.value})>"

    def __call__(self, *values: Any, **statics: Any) -> Any:
        return bind(self, *values, **statics)


def _parameters(function: Callable) -> tuple[tuple[str, ...], bool, dict[str, Any]]:
    """(positional names, whether the last is ``*name``, keyword-only names with their defaults).

    From the code object: ``inspect.signature`` of all ops together takes 20 ms of importing jtorch.
    """
    code = function.__code__
    n, k = code.co_argcount, code.co_kwonlyargcount
    variadic = bool(code.co_flags & inspect.CO_VARARGS)
    names = code.co_varnames[:n] + (code.co_varnames[n + k : n + k + 1] if variadic else ())
    defaults = function.__kwdefaults__ or {}
    statics = {s: defaults.get(s, inspect.Parameter.empty) for s in code.co_varnames[n : n + k]}
    return names, variadic, statics


TABLE: list[Op] = []
BY_NAME: dict[str, Op] = {}


def _grad_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_")) + "Backward0"


def _declarer(kind: Kind) -> Callable:
    def declare(**facts: Any) -> Callable[[Callable], Op]:
        def decorator(body: Callable) -> Op:
            op = Op(kind, body, **facts)
            if op.name in BY_NAME:
                raise TypeError(f"op {op.name!r} is declared twice")
            TABLE.append(op)
            BY_NAME[op.name] = op
            return op

        return decorator

    declare.__name__ = kind.value
    declare.__doc__ = f"Declare an op of kind {kind.value}; its facts are the attributes of Op."
    return declare


elementwise = _declarer(Kind.ELEMENTWISE)
reduction = _declarer(Kind.REDUCTION)
view = _declarer(Kind.VIEW)
contraction = _declarer(Kind.CONTRACTION)
opaque = _declarer(Kind.OPAQUE)
composite = _declarer(Kind.COMPOSITE)


# -- the seam ----------------------------------------------------------------------------------------


class Evaluator:
    """How values are computed. Eager is one; the tracer is another. Everything else is shared.

    ``table[op.index](*values, **statics)`` computes an op on raw values (NumPy arrays or traced ones);
    ``xp`` is the namespace that bodies and gradients get.
    """

    table: Sequence[Callable]
    runs_nodes = True  # the engine may run a node's gradient itself, without asking ``backward``
    skips_table = False  # what ops give may be computed without asking it, as nobody watches the calls
    reads_elements = True  # lists with tensors in them may be read number by number
    narrows = False  # ``table`` has the ops of ``narrow.py``, too
    counts_masks = False  # how many elements a mask names is known while a function is recorded
    xp: Any

    def places_of_mask(self, mask: Any) -> Any:
        """Where a mask of one axis holds, as int64. Raises CountNeeded where the next attempt at a recording
        counts masks."""
        return np.flatnonzero(self.concrete(mask, "indexing with a boolean mask"))

    def repeated_places(self, repeats: Any) -> Any:
        """The places of a vector of integers, each as often as it says, as int64. Raises as above."""
        given = self.concrete(repeats, "repeat_interleave() without output_size=")
        return np.repeat(np.arange(given.size), given)

    def follows(self, array: Any) -> bool:
        """Whether ``array`` stands for another one at each later call, so that a copy of it is an op."""
        return False

    def lends(self, array: Any) -> bool:
        """Whether ``array`` is an argument of a compiled function that is being recorded."""
        return False

    def backward(self, node: Any, xp: Any, g: Any) -> Any:
        """The gradients of a node of the tape, on raw values."""
        return node.backward(xp, g)

    def move(self, value: Any, device: Any, later: bool = False) -> Any:
        """A copy of ``value`` in the memory of another device, or of the host; where ``value`` is pinned it
        may be read ``later``."""
        raise CompileError(
            f"{user_source()}: a tensor is moved to {device} in a compiled function, which computes where "
            "its arguments are: move it outside."
        )

    def namespace(self, value: Any) -> Any:
        """``xp`` for gradients beside ``value``: where that lies."""
        return self.xp

    def namespace_at(self, place: Any) -> Any:
        """``xp`` for what is drawn for a device: the host's, where its elements are copied there."""
        return self.xp

    def as_value(self, value: Any) -> Any:
        """A NumPy scalar, an array or a traced value as what a Tensor stores."""
        raise NotImplementedError

    def walk(self, targets: Iterable[Any]) -> None:
        """A backward pass is about to go through these nodes of the tape, and leaves."""

    def limit(self, wanted: Sequence[Any], targets: Iterable[Any]) -> None:
        """A backward pass that reaches these nodes and leaves is about to give ``wanted`` alone gradients."""

    def new(self, array: np.ndarray) -> Any:
        """The value of a tensor made of data that the program just wrote down."""
        return array

    def lift(self, value: Any) -> Any:
        """What a tensor stores as something to compute with by more than ops: user code handed it in."""
        return value

    def like(self, value: Any, of: Any) -> Any:
        """``value`` as one of each example, in memory of its own, where ``of`` is one of a batch."""
        return value

    def every(self, value: Any) -> Any:
        """A bool that is one of each example of a batch as whether all of them hold."""
        return value

    def write(self, tensor: Any, value: Any) -> None:
        """Overwrite the memory of a Tensor with a raw value of its shape and dtype; views see it."""
        raise NotImplementedError

    def concrete(self, value: Any, wanted_by: str) -> np.ndarray:
        """The elements as a NumPy array, for ``.numpy()``, ``.item()``, ``bool()`` and their kin."""
        raise NotImplementedError

    def check_text(self) -> None:
        """The text of a tensor is about to be made. Raises CompileError where that cannot be followed."""

    def own(self, value: Any, given: set[int]) -> Any:
        """``value`` if nobody else can hold its memory, else a copy; ``given`` lists those handed out."""
        raise NotImplementedError

    def knows(self, value: Any) -> bool:
        """Whether a raw value that is no array is one of its own: others are of recordings that have ended,
        or of other threads."""
        return False

    def takes_grad(self, leaf: Any) -> bool:
        """Whether a gradient that arrives at ``leaf`` is for it: not if it was frozen after forward."""
        return bool(leaf._requires_grad)

    def is_argument(self, tensor: Any) -> bool:
        """Whether ``tensor`` stands for an argument while a program is recorded: it is no plain memory where
        its sizes are symbols."""
        return False

    def window(self, value: Any) -> tuple[Any, int]:
        """(whose memory ``value`` lies in, how many bytes from its start)"""
        raise NotImplementedError

    def outside(self, owner: Any = None) -> AbstractContextManager:
        """Run ops at once, also while tracing: for state that must exist before a step is recorded. State of
        an ``owner`` that the function itself makes is each call's own."""
        return nullcontext()

    def runs_again(self, function: Callable, goes_back: bool = False) -> None:
        """A checkpoint is about to run ``function`` once more, for what it saves; ``goes_back`` where that is
        followed by a backward pass of its own."""

    def picked(self, tensor: Any, of: Any, indices: tuple, axes: tuple[int, ...]) -> None:
        """``tensor`` was copied from ``indices`` of the tensor ``of``: where they are known it is a view."""

    def scalar(self, container: Any, key: Any) -> Any:
        """A hyper-parameter ``container[key]`` that may change from call to call.

        A pair as ``key`` is a path, for tuples that are replaced whole: ``("betas", 0)`` means
        ``container["betas"][0]``.
        """
        raise NotImplementedError

    def option(self, container: Any, key: Any) -> Any:
        """A flag ``container[key]`` that decides which ops run: another value is another program."""
        return container[key]

    def keep(self, container: Any, key: Any, value: Any) -> None:
        """``container[key] = value``, also at each replay: what library objects note of their steps."""
        container[key] = value

    # (function, its owner, arguments, keywords, what gives the dicts that it will change): puts the call off
    # to the end of a compiled function. None where it happens at once.
    afterwards: Callable | None = None

    def scan(self, steps: Any, count: int, reverse: bool) -> Any:
        """(the last carries, what all steps give, stacked) of a loop of ``eager/scanning.py``; None where
        Python is to run the steps one by one."""
        return None

    def while_loop(self, turns: Any, bound: int) -> Any:
        """(the last carries, how many turns) of a loop of ``eager/while_loops.py``; None where Python is to
        run them."""
        return None

    def unrolls(self, what: str, times: int, way_out: str) -> None:
        """Python is about to run ``what`` so many times, which a recording holds one by one."""

    def refuse(self, what: str, way_out: str) -> None:
        """``what`` is about to happen, which a recording would do once: an error while one is made."""

    def made(self, tensor: Any) -> bool:
        """Whether the program that is recorded made this very tensor, maybe over memory from outside."""
        return False

    def rebinding(self, tensor: Any, value: Any) -> None:
        """``tensor`` is about to get the memory of ``value``: what a recording must do again, or refuse."""

    def get_grad(self, tensor: Any) -> Any:
        """What ``tensor.grad`` is now."""
        raise NotImplementedError

    def set_grad(self, tensor: Any, grad: Any) -> None:
        """Make ``grad`` (a Tensor or None) what ``tensor.grad`` is."""
        raise NotImplementedError

    def add_to_grad(self, before: Any, g: Any) -> Any:
        """``before`` (a Tensor) with ``g`` added in its memory, or None where that must not be."""
        return None

    def next_call(self, generator: Any) -> tuple[Any, Any]:
        """(seed, op call number) of the next random op drawn from ``generator``."""
        raise NotImplementedError

    def exchange(self, collective: Any, values: Sequence[Any]) -> Any:
        """The elements of ``values``, flat, behind each other, after a collective of all processes."""
        raise NotImplementedError


class Context:
    """What holds for ops run now in this thread of control: an evaluator, the grad mode and autocast.

    ``grad`` is whether ops record: not in inference mode, also where gradients were ``enabled`` inside it.
    ``autocast`` is the ``casting`` where that is on, else None; ``level`` the level of forward mode that
    carries tangents along, or None.
    """

    __slots__ = (
        "autocast", "casting", "enabled", "evaluator", "grad", "inference", "level", "mode", "table", "xp",
    )  # fmt: skip

    def __init__(
        self, evaluator: Evaluator, grad: bool = True, inference: bool = False, casting: Casting = OFF,
        level: Any = None,
    ) -> None:  # fmt: skip
        self.evaluator = evaluator
        self.table = evaluator.table
        self.xp = evaluator.xp
        self.enabled = bool(grad)
        self.grad = self.enabled and not inference
        self.inference = inference
        self.casting = casting
        self.autocast = casting if casting.enabled else None
        self.level = level
        self.mode = self.enabled + 2 * inference + 4 * casting.number  # one number to compare
        if level is not None:  # no plan of a compiled function carries tangents along
            self.mode = -1

    def replace(
        self, evaluator: Evaluator | None = None, grad: bool | None = None, inference: bool | None = None,
        casting: Casting | None = None,
    ) -> Context:  # fmt: skip
        """One that differs in what is given. Each ``backward()`` and ``no_grad()`` asks for one."""
        if casting is None:
            casting = self.casting
            if (
                evaluator is not None and casting is not OFF
            ):  # what another one has cast is none of its values
                casting = casting.replace(cache={})
        return Context(
            self.evaluator if evaluator is None else evaluator,
            self.enabled if grad is None else grad,
            self.inference if inference is None else inference,
            casting,
            self.level,
        )

    def at_level(self, level: Any) -> Context:
        """One that differs in the level of forward mode."""
        return Context(self.evaluator, self.enabled, self.inference, self.casting, level)


CONTEXT: ContextVar[Context]  # its default, eager with gradients, is set where eager is defined


def set_default_context(context: Context) -> None:
    """Name the context of threads that set none. Called once, by the eager evaluator."""
    global CONTEXT
    CONTEXT = ContextVar("jtorch_context", default=context)


def agree(*tensors: Any) -> bool:
    """Whether these have one dtype, or will have when an op of the class "lower" computes with them."""
    found = {t.dtype for t in tensors}
    if len(found) < 2:
        return True
    autocast = CONTEXT.get().autocast
    is_on = autocast is not None and autocast.on(tensors[0].device.type).enabled
    return is_on and all(casts(d.numpy) for d in found)


def bind(op: Op, *values: Any, **statics: Any) -> Any:
    """Compute ``op`` on raw values with the evaluator in force. The one interception point."""
    return CONTEXT.get().table[op.index](*values, **statics)


# -- types without values ------------------------------------------------------------------------------


def infer(
    op: Op, dtypes: Sequence[np.dtype], shapes: Sequence[tuple[int, ...]], statics: dict[str, Any]
) -> list[tuple[np.dtype, tuple[int, ...]]]:
    """(dtype, shape) of each output of a primitive whose arguments were cast and broadcast already."""
    if op.kind is Kind.ELEMENTWISE:
        shape = shapes[0] if shapes else tuple(statics["shape"])
    elif op.kind is Kind.REDUCTION and not op.scatter:
        shape = reduced_shape(shapes[0], statics["axis"], statics["keepdims"])
    else:
        assert op.shape is not None
        shape = op.shape(*shapes, **statics)
    shapes_of: Any = shape if op.n_outputs > 1 else [shape]
    many = [tuple(s) for s in shapes_of]
    return list(zip(output_dtypes(op, dtypes, statics), many, strict=True))


_FIXED_DTYPES = {"compare": np.dtype(np.bool_), "logical": np.dtype(np.bool_), "index": np.dtype(np.int64)}


def output_dtypes(op: Op, dtypes: Sequence[np.dtype], statics: dict[str, Any]) -> list[np.dtype]:
    rule = op.dtype
    if callable(rule):
        found = rule(dtypes, statics)
        return list(found) if op.n_outputs > 1 else [found]
    fixed = _FIXED_DTYPES.get(rule)
    if fixed is not None:
        return [fixed] * op.n_outputs
    if rule == "static":
        return [np.dtype(statics["dtype"])] * op.n_outputs
    if rule == "where":
        return [dtypes[1]]
    return [dtypes[0]] * op.n_outputs


def reduced_shape(shape: tuple[int, ...], axis: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """``shape`` without the axes in ``axis`` (with size 1 in their place where ``keepdims``)."""
    if keepdims:
        return tuple(1 if k in axis else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axis)
