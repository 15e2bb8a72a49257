"""The guards of a plan's way in: the lines by which its generated function finds out that it is none for a
call, and gives what it looked at the names that the lines behind them use (``caller.py``)."""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import Any

import numpy as np

from jtorch.compile.observe.guards import GONE, tests_of
from jtorch.compile.observe.values import alike, counts_by_value
from jtorch.compile.record.arrays import Lent, LentNumber, given, is_lent, lend_if_possible
from jtorch.compile.record.containers import changed_of
from jtorch.compile.record.drawn import has_company
from jtorch.compile.record.inputs import LARGEST, GradInput, captured, of
from jtorch.compile.record.opened import Opened
from jtorch.compile.record.shared_memory import FOREIGN, overlap, owner
from jtorch.compile.run.lines import About, Guard, Line
from jtorch.core.errors import Source
from jtorch.core.op import Context
from jtorch.eager.tensor import Tensor


class Guarded:
    """The lines of a plan's function so far, and the ``names`` that they use."""

    def __init__(self, plan: Any, leaves: list[Any], context: Context) -> None:
        self.plan = plan
        self.leaves = leaves
        self.context = context
        self.sizing = plan.capture.sizing
        self.taken = frozenset(() if self.sizing is None else self.sizing.env.symbols)
        self.symbols: list[str] = []  # those that the lines so far know
        self.lines: list[Line] = []
        self.first_drawn = min((each.start for each in plan.capture.drawn), default=len(leaves))
        self.own: dict[int, str] = {}  # id of a tensor that gets other memory -> the name of what it has
        self.counts: Counter[str] = Counter()  # of names, by their prefix
        self.names: dict[str, Any] = {}

    def add(self, line: str, state: bool = False) -> None:
        self.lines.append(Line(line, state))

    def miss_unless(
        self, about: About, test: str, state: bool = False, source: Source | None = None,
        branches: bool = False,
    ) -> None:  # fmt: skip
        """Guard ``test``, of arguments, or of the ``state`` that the function reaches by itself. Who asks for
        a plan by its arguments tells them apart: see ``inspect/fitting.py``. ``source``: who asked;
        ``branches``: whether another answer is another way through the program."""
        self.lines.append(Guard(test, state, about=about, source=source, branches=branches))

    def name(self, prefix: str, value: Any) -> str:
        """A name for ``value``, which no symbol has."""
        while (name := f"{prefix}{self.counts[prefix]}") in self.taken:
            self.counts[prefix] += 1
        self.counts[prefix] += 1
        self.names[name] = value
        return name

    def guard(self) -> None:
        """The lines by which the plan is none for a call."""
        self.add("context = CONTEXT.get()")
        self.miss_unless(
            About.MODE,
            f"context.evaluator is EAGER and context.mode == {self.context.mode} and not SAVED_HOOKS.get() "
            "and (not plan.news or plan.is_as_before())",
            state=True,
        )
        replaced = self.plan.capture.replaced
        opened = self.plan.capture.opened
        drawn = self.plan.capture.drawn
        n = len(self.leaves) - len(replaced) - sum(each.n for each in (*opened, *drawn))
        self.miss_unless(About.STRUCTURE, f"len(leaves) == {n}")
        if n:
            self.add(f"{''.join(f'a{k}, ' for k in range(n))}= leaves")
        for k, place in enumerate(replaced, n):
            self.add(f"a{k} = {self.name('h', place.find)}()")
        written = frozenset(id(place.container) for place in self.plan.capture.written)
        for each in opened:
            self._open(each, written)
        first: dict[int, int] = {}
        for k, leaf in enumerate(self.leaves[: self.first_drawn]):
            self._leaf_guard(k, leaf)
            if isinstance(leaf, Tensor) and (same := first.setdefault(id(leaf._data), k)) != k:
                one = "is" if leaf is self.leaves[same] else "is not"
                self.miss_unless(About.MEMORY, f"d{k} is d{same} and a{k} {one} a{same}")
        if self.plan.capture.tells_apart:
            self._apart_guard(sorted(set(first.values())))
        if self.sizing is not None:
            self._find_instance()
        guarded = [read for read in self.plan.capture.plain if read.guarded]
        if guarded:
            self.names["GONE"] = GONE
            tests = tests_of(guarded, self.names)
            self.lines.append(Guard(tests, True, about=About.OUTSIDE, gives_up=True))
        if drawn:
            self._drawn_guards(drawn)
        for question in self.plan.capture.questions.values():
            self.miss_unless(About.VALUE, question(self.name))
        of_tensors = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        self._overlap_guard([k for k in of_tensors if type(self.leaves[k]) is not LentNumber])
        self._rebound_guards()
        self._grad_guards()
        self._container_guard()

    def _apart_guard(self, places: list[int]) -> None:
        """These arguments, which were tensors of their own, are so again, and none that is reached otherwise:
        the memory of one tensor is one array."""
        places = [k for k in places if k not in self.plan.capture.fixed]
        ids = "".join(f"id(d{k}), " for k in places)
        if len(places) > 1:
            self.miss_unless(About.MEMORY, f"len({{{ids[:-2]}}}) == {len(places)}")
        arrays = [e.array for e in captured(self.plan.capture.inputs)]
        if places and arrays:
            known = self.name("known", frozenset(map(id, arrays)))
            self.miss_unless(About.MEMORY, f"{known}.isdisjoint(({ids}))")

    def _is_exact_number(self, k: int) -> bool:
        """Whether it is one of NumPy's, of which the program asked more than to compute with it."""
        return type(self.leaves[k]) is LentNumber and k in self.plan.capture.exact

    def _leaf_guard(self, k: int, leaf: Any) -> None:
        if self._is_exact_number(k):
            self.names["alike"], self.names["given"] = alike, given
            self.miss_unless(About.VALUE, f"alike(given(a{k}), {self.name('V', given(leaf))})")
        elif isinstance(leaf, Tensor):
            self._tensor_guard(k, leaf)
        elif leaf.__class__ is float:
            self.miss_unless(About.VALUE, f"a{k}.__class__ is float")
            if k in self.plan.capture.exact:
                self._exact_guard(k, leaf)
        elif k in self.plan.capture.counted and leaf.__class__ is bool:
            self.miss_unless(About.NUMBER, f"a{k}.__class__ is bool")
        elif k in self.plan.capture.counted:
            self.miss_unless(About.NUMBER, f"a{k}.__class__ is int and {-LARGEST} <= a{k} <= {LARGEST}")
        elif self.sizing is not None and k in self.sizing.texts:
            self.miss_unless(About.VALUE, f"a{k}.__class__ is int")
            self._name_sizes(f"(a{k},)", self.sizing.texts[k])
        else:
            self._static_guard(k, leaf)

    def _drawn_guards(self, drawn: list[Opened]) -> None:
        """What generators give, which may be the same thing twice: behind the guards that cost nothing to
        fail, since a call that fails one from here on puts the generators back."""
        for generator in {id(each.place.generator): each.place.generator for each in drawn}.values():
            cls = self.name("C", type(generator))
            self.miss_unless(About.OUTSIDE, f"{self.name('G', generator)}.__class__ is {cls}", state=True)
        self.names["begin_drawing"] = self.plan.drawing.begin
        self.add("begin_drawing()")
        for each in drawn:
            self._open(each, frozenset())
        self.names["has_company"] = has_company
        for k in range(self.first_drawn, len(self.leaves)):
            self._leaf_guard(k, self.leaves[k])
            if type(self.leaves[k]) is Tensor:
                self.miss_unless(About.TENSOR, f"not has_company(a{k})")

    def _open(self, opened: Opened, apart: frozenset[int]) -> None:
        """The leaves of what is at a place that is open, or is drawn, in containers that are ``apart``."""
        found = self.name("b", None)
        given = ", ".join(f"{k}: a{k}" for k in opened.brought)
        given = f"given={{{given}}}" if given else ""
        self.add(f"{found} = {self.name('h', functools.partial(opened.leaves, apart))}({given})")
        self.miss_unless(About.STRUCTURE, f"{found} is not None")
        names = "".join(f"a{k}, " for k in range(opened.start, opened.start + opened.n))
        if names:
            self.add(f"{names}= {found}")

    def _container_guard(self) -> None:
        """What the plan changes in arguments is nothing that it also reads or writes outside."""
        capture = self.plan.capture
        if capture.changes:
            outside = {id(read.container) for read in capture.plain}
            outside |= {id(place.container) for place in capture.written}
            self.names["changed_of"] = changed_of
            changes, known = self.name("W", capture.changes), self.name("O", frozenset(outside))
            self.miss_unless(About.OUTSIDE, f"{known}.isdisjoint(changed_of(leaves, {changes}))", state=True)

    def tensor(self, tensor: Any) -> str:
        """The expression for a tensor of the recording: an argument of this call, or a captured one."""
        place = self.plan.capture.places.get(id(tensor))
        return self.name("t", tensor) if place is None else f"a{place}"

    def _grad_guards(self) -> None:
        """Gradients are where they were; tensors that get one are not the same where they were not."""
        capture = self.plan.capture
        effects = capture.effects
        owners = {id(t): t for t, *_ in (*effects.grads, *effects.shared_grads)}
        for entry in of(GradInput, capture.inputs):
            owners[id(entry.tensor)] = entry.tensor
            tensor = self.tensor(entry.tensor)
            self.miss_unless(
                About.GRADIENT, f"{tensor}._grad is {'not ' if entry.present else ''}None", state=True
            )
        places = sorted(capture.places[k] for k in owners if k in capture.places)
        outside = frozenset(k for k in owners if k not in capture.places)
        for tensor in owners.values():
            if id(tensor) in outside and tensor._hooks:
                hooks = self.name("H", dict(tensor._hooks))
                self.miss_unless(About.GRADIENT, f"{self.tensor(tensor)}._hooks == {hooks}", state=True)
        for k in places:
            if outside:
                self.miss_unless(About.GRADIENT, f"id(a{k}) not in {self.name('T', outside)}")
            for other in places:
                if other < k:
                    self.miss_unless(About.GRADIENT, f"a{k} is not a{other}")

    def _tensor_guard(self, k: int, leaf: Tensor) -> None:
        data = leaf._data
        cls, dtype = self.name("C", type(leaf)), self.name("D", data.dtype)
        if type(leaf) is LentNumber:  # straight from the caller
            self.names["lend"] = lend_if_possible
            self.add(f"if a{k}.__class__ is {self.name('C', type(given(leaf)))}: a{k} = lend(a{k})")
        elif type(leaf) is Lent:
            self.names["ndarray"], self.names["lend"] = np.ndarray, lend_if_possible
            self.add(f"if a{k}.__class__ is ndarray and a{k}.dtype == {dtype}: a{k} = lend(a{k})")
        self.miss_unless(About.TENSOR, f"a{k}.__class__ is {cls}")
        self.add(f"d{k} = a{k}._data")
        self.miss_unless(About.TENSOR, f"d{k}.__class__ is {self.name('C', type(data))}")
        if is_lent(leaf):
            self.miss_unless(About.TENSOR, f"d{k}.flags.writeable is {data.flags.writeable}")
        if k in self.plan.capture.fixed:
            self.miss_unless(
                About.TENSOR, f"a{k} is {self.name('V', leaf)} and d{k} is {self.name('k', data)}"
            )
        if leaf._requires_grad and leaf._node is None:
            same = f"== {self.name('H', dict(leaf._hooks))}" if leaf._hooks else "in (None, {})"
            self.miss_unless(About.TENSOR, f"a{k}._hooks {same}", state=True)
        is_leaf = f" and (a{k}._node is None) is {leaf._node is None}" if leaf._requires_grad else ""
        sizes = None if self.sizing is None else self.sizing.shapes.get(k)
        if sizes is None:
            place = f"d{k}.shape == {data.shape}", f"d{k}.strides == {data.strides}"
        else:
            place = f"d{k}.ndim == {len(sizes)}", f"d{k}.flags.c_contiguous"
        self.miss_unless(
            About.TENSOR,
            f"{place[0]} and (d{k}.dtype is {dtype} or d{k}.dtype == {dtype}) and "
            f"{place[1]} and a{k}._requires_grad is {leaf._requires_grad}{is_leaf}",
        )
        if sizes is not None:
            self._name_sizes(f"d{k}.shape", self.sizing.texts[k])

    def _name_sizes(self, shape: str, texts: tuple[str, ...]) -> None:
        """Give the symbols that this shape of an argument brings their values; test its other sizes."""
        names, tests = [], []
        for axis, text in enumerate(texts):
            is_new = not text.isdecimal() and text not in self.symbols
            names.append(text if is_new else f"size{axis}")
            if is_new:
                self.symbols.append(text)
            else:
                tests.append(f"size{axis} == {text}")
        self.add(f"{''.join(f'{name}, ' for name in names)}= {shape}")
        if tests:
            self.miss_unless(About.TENSOR, " and ".join(tests))

    def _find_instance(self) -> None:
        """What runs calls of these sizes, made where there is none."""
        self.names |= self.sizing.env.functions
        self.names["found"], self.names["instantiate"] = self.plan.runner.found, self.plan.runner.instantiate
        if self.sizing.counts:
            self.names["counts"] = self.plan.counts
            self.symbols += self.sizing.counts
            self.add(f"{''.join(f'{name}, ' for name in self.sizing.counts)}= counts.now")
        sizes = ", ".join(self.symbols)
        self.add(f"made = found.get({sizes if len(self.symbols) == 1 else f'({sizes})'})")
        self.add(f"if made is None: made = instantiate({sizes})")
        self.miss_unless(About.SIZES, "made is not None")
        self.add("made.used = True")

    def _exact_guard(self, k: int, leaf: float) -> None:
        test = f"a{k} == {number_text(leaf)}" if leaf == leaf else f"a{k} != a{k}"
        if not leaf or leaf != leaf:
            self.names["copysign"] = math.copysign
            test += f" and copysign(1.0, a{k}) == {math.copysign(1.0, leaf)}"
        self.miss_unless(About.NUMBER, test)

    def _static_guard(self, k: int, leaf: Any) -> None:
        value = self.name("V", leaf)
        if leaf.__class__ in (bool, int, str, bytes, type(None)):
            cls = self.name("C", type(leaf))
            self.miss_unless(About.VALUE, f"a{k}.__class__ is {cls} and a{k} == {value}")
        elif counts_by_value(leaf):
            self.names["alike"] = alike
            self.miss_unless(About.VALUE, f"a{k} is {value} or alike(a{k}, {value})")
        else:
            self.miss_unless(About.VALUE, f"a{k} is {value}")

    def _overlap_guard(self, tensors: list[int]) -> None:
        """Arguments must not lie in memory that the plan writes, nor written ones in memory that it reads."""
        writes = self.plan.capture.effects.writes
        tensors = [k for k in tensors if k not in self.plan.capture.fixed]
        if not writes or not tensors:
            return
        written = sorted({e.argument for e in writes if e.argument is not None})
        outside = captured(self.plan.capture.inputs)
        self._apart([f"d{k}" for k in tensors], [e.array for e in outside if e.written])
        self._apart([f"d{k}" for k in written], [e.array for e in outside])
        for w in written:
            self.miss_unless(About.MEMORY, f"d{w}.flags.writeable")
            for k in tensors:
                is_another = self.leaves[k]._data is not self.leaves[w]._data
                if k != w and (is_another or k >= self.first_drawn):
                    self.names["near"], self.names["overlap"] = np.may_share_memory, overlap
                    self.miss_unless(About.MEMORY, f"not near(d{k}, d{w}) or not overlap(d{k}, d{w})")

    def _rebound_guards(self) -> None:
        """Tensors that get other memory are none of the arguments, and lie apart from all that is written."""
        rebound, effects = self.plan.capture.rebound, self.plan.capture.effects
        tensors = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        if rebound and tensors:
            known = self.name("T", frozenset(map(id, rebound)))
            ids = "".join(f"id(a{k}), " for k in tensors)
            self.miss_unless(About.MEMORY, f"{known}.isdisjoint(({ids}))")
        written = sorted({e.argument for e in effects.writes if e.argument is not None})
        for tensor in rebound:
            memory = self.own[id(tensor)] = self._own_memory(tensor)
            for k in written:
                self.names["near"], self.names["overlap"] = np.may_share_memory, overlap
                apart = f"not near(d{k}, {memory}) or not overlap(d{k}, {memory})"
                self.miss_unless(About.MEMORY, apart, state=True)
        outside = captured(self.plan.capture.inputs)
        self._apart([*self.own.values()], [e.array for e in outside if e.written], state=True)

    def _own_memory(self, tensor: Tensor) -> str:
        """The name of what a tensor lies in now, which is laid out as it was."""
        name, memory, dtype = self.name("t", tensor), self.name("m", None), self.name("D", tensor._data.dtype)
        self.add(f"{memory} = {name}._data", state=True)
        self.names["ndarray"] = np.ndarray
        hooks = f"== {self.name('H', dict(tensor._hooks))}" if tensor._hooks else "in (None, {})"
        self.miss_unless(
            About.MEMORY,
            f"{memory}.__class__ is ndarray and {memory}.shape == {tensor._data.shape} and "
            f"{memory}.dtype == {dtype} and {memory}.flags.c_contiguous and {name}._node is None and "
            f"{name}._requires_grad is {tensor._requires_grad} and {name}._hooks {hooks}",
            state=True,
        )
        return memory

    def _apart(self, names: list[str], arrays: list[np.ndarray], state: bool = False) -> None:
        """Guard that what has these names shares no memory with ``arrays``: by owners, which costs next to
        nothing, and by address where the owner is one of them or not known."""
        if not names or not arrays:
            return
        self.names["owner"] = owner
        known = self.name("owners", frozenset({id(owner(a)) for a in arrays} | {id(FOREIGN)}))
        outside = self.name("outside", lambda d: not any(overlap(d, a) for a in arrays))
        is_foreign = any(owner(a) is FOREIGN for a in arrays)
        for name in names:
            owned = f"id({name} if {name}.base is None else owner({name})) not in {known}"
            test = f"{outside}({name})" if is_foreign else f"{owned} or {outside}({name})"
            self.miss_unless(About.MEMORY, test, state=state)


def number_text(value: float) -> str:
    """A float as generated source has it."""
    return repr(value) if np.isfinite(value) else f"float('{value}')"
