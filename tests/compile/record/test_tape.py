"""The tape of a recording: the gradients it starts from, graphs from outside, and what becomes of its own."""

import itertools
import warnings

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError

# -- gradients that are handed in --------------------------------------------------------------------------


class _Gives(jtorch.autograd.Function):
    """The identity, with ``given`` as its gradient."""

    @staticmethod
    def forward(ctx, x, given):
        ctx.given = given
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return ctx.given, None


def _set_grad(w, found):
    w.grad = found[0]


def _hooked(w, g, which):
    y = w * 3
    if which == "tensor":
        y.register_hook(lambda _: g)
    elif which == "pre":
        y.grad_fn.register_prehook(lambda _: (g,))
    elif which == "post":
        y.grad_fn.register_hook(lambda *_: (g, None))
    (y * 2).sum().backward()


def _custom(w, g):
    _Gives.apply(w, g).sum().backward()


def _leaf_hook(w, g):
    v = w.detach().clone().requires_grad_()
    v.register_hook(lambda _: g)
    v.sum().backward()
    w.grad = v.grad


def _packed(w, g):
    with jtorch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = w * w
    y.backward(g)


def _twice(w, g):
    w.backward(g)
    w.backward(g)


def _two(w, g):
    jtorch.autograd.backward([w * 3, w, w], [g, g, g])


def _kept(w, g):
    y = w * 1
    y.retain_grad()
    y.backward(g)
    w.grad.add_(y.grad)


GIVEN = {
    "positional": lambda w, g: (w * 3).backward(g),
    "by keyword": lambda w, g: (w * 3).backward(gradient=g),
    "computed": lambda w, g: (w * 3).backward(g * 1),
    "a view": lambda w, g: (w * 3).backward(g[:1].expand(2)),
    "autograd.backward": lambda w, g: jtorch.autograd.backward([w * 3], [g]),
    "to several": _two,
    "grad_tensors": lambda w, g: jtorch.autograd.backward(w * 3, grad_tensors=g),
    "autograd.grad": lambda w, g: _set_grad(w, jtorch.autograd.grad(w * 3, w, g)),
    "autograd.grad of the tensor": lambda w, g: _set_grad(w, jtorch.autograd.grad(w * 1, w, g)),
    "grad_outputs": lambda w, g: _set_grad(w, jtorch.autograd.grad([w * 3, w], w, grad_outputs=[g, g])),
    "batched": lambda w, g: _set_grad(
        w, jtorch.autograd.grad(w * 3, w, grad_outputs=jtorch.stack([g, g]), is_grads_batched=True)[0]
    ),
    "inputs": lambda w, g: (w * 3).backward(g, inputs=[w]),
    "create_graph": lambda w, g: _set_grad(
        w, [d.detach() for d in jtorch.autograd.grad(w * w, w, g, create_graph=True)]
    ),
    "a leaf": lambda w, g: w.backward(g),
    "a leaf, twice": _twice,
    "another dtype": lambda w, g: (w * 3).double().backward(g.double()),
    "retained": _kept,
    "a hook on a tensor": lambda w, g: _hooked(w, g, "tensor"),
    "a hook before a node": lambda w, g: _hooked(w, g, "pre"),
    "a hook after a node": lambda w, g: _hooked(w, g, "post"),
    "a hook on a leaf": _leaf_hook,
    "a custom Function": _custom,
    "hooks on what is saved": _packed,
}  # fmt: skip


def _gradients(way, compiled, captured):
    w, outside = nn.Parameter(jtorch.ones(2)), jtorch.zeros(2)

    def f(g):
        w.grad = None
        way(w, outside if captured else g)

    if compiled:
        f = jtorch.compile(f)
    found = []
    for k in range(3):
        given = jtorch.tensor([k + 1.0, k + 5.0])
        outside.copy_(given)
        f(given)
        found.append((w.grad.tolist(), given.tolist(), outside.tolist()))
    return found


@pytest.mark.parametrize("captured", [False, True], ids=["argument", "captured"])
@pytest.mark.parametrize("way", GIVEN)
def test_gradients_that_are_handed_in_are_those_of_each_call(way, captured):
    assert _gradients(GIVEN[way], True, captured) == _gradients(GIVEN[way], False, captured)


# -- graphs from outside -----------------------------------------------------------------------------------


def _kept_graph(w):
    return {
        "a saved result": w.exp(), "saved operands": w * w, "a number": w + 1,
        "a custom Function": _Same.apply(w), "a view of one": w.exp().view(1, 2),
        "written": jtorch.zeros(2).copy_(w * 2),
    }  # fmt: skip


class _Same(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * 1


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("kind", _kept_graph(jtorch.ones(2, requires_grad=True)))
def test_a_backward_through_a_graph_from_outside_is_an_error(kind, create):
    w = nn.Parameter(jtorch.tensor([1.0, 2.0]))
    z = _kept_graph(w)[kind]

    @jtorch.compile
    def f():
        ((z * 3).sum() + (w * w).sum()).backward(retain_graph=True, create_graph=create)

    with pytest.raises(jtorch.errors.CompileError, match=r"built outside it .*Build the whole graph inside"):
        f()
    assert w.grad is None
    (z * 3).sum().backward()  # recording freed nothing


def test_a_result_of_a_graph_from_outside_is_an_error():
    w = nn.Parameter(jtorch.tensor([1.0, 2.0]))
    z = w.exp()
    with pytest.raises(jtorch.errors.CompileError, match="pass that tensor as an argument"):
        jtorch.compile(lambda: z * 3)()
    f = jtorch.compile(lambda z: z * 3)
    f(z).sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        f(z).sum().backward()


def test_views_of_parameters_made_outside_are_gone_through():
    w = nn.Parameter(jtorch.ones(2, 2))
    flat = w.view(-1)[1:]

    @jtorch.compile
    def f(x):
        (flat * x).sum().backward()

    for k in range(1, 4):
        f(jtorch.ones(3))
        assert w.grad.tolist() == [[0.0, k], [k, k]]


# -- graphs of earlier calls -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda f: f, "backward through the graph a second time"),
        (jtorch.compile, "reaches an argument that was computed outside"),  # as state that is replaced counts
    ],
    ids=["eager", "compiled"],
)
def test_state_that_is_kept_with_a_freed_graph(wrap, message):
    w, state = nn.Parameter(jtorch.ones(2)), {"h": jtorch.zeros(2)}

    @wrap
    def f(x):
        state["h"] = jtorch.tanh(w * x + state["h"])
        state["h"].sum().backward()

    f(jtorch.ones(2))
    before = w.grad.tolist()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=message):
            f(jtorch.ones(2))
    assert w.grad.tolist() == before
    state["h"] = state["h"].detach()
    f(jtorch.ones(2))


@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_a_result_that_hangs_on_a_freed_graph(wrap):
    w, state = nn.Parameter(jtorch.ones(2)), {}

    @wrap
    def first(x):
        state["h"] = jtorch.tanh(w * x)
        state["h"].sum().backward()

    @wrap
    def second(x):
        return (state["h"] * x).sum()

    first(jtorch.ones(2))
    for _ in range(2):
        y = second(jtorch.ones(2))
        assert y.requires_grad
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            y.backward()


def _freed_below(x, w):
    h = x.exp()
    h.sum().backward()
    return h * w


def test_no_pass_goes_by_a_graph_of_which_a_part_is_freed():
    compiled = jtorch.compile(_freed_below)
    for way in (
        lambda y, x, w: y.sum().backward(),
        lambda y, x, w: y.sum().backward(inputs=[w]),
        lambda y, x, w: jtorch.autograd.grad(y.sum(), w),
        lambda y, x, w: jtorch.autograd.grad(y.sum(), [x, w], allow_unused=True),
        lambda y, x, w: jtorch.autograd.grad((y + w).sum(), w, allow_unused=True),
    ):
        x, w = jtorch.ones(2, requires_grad=True), jtorch.ones(2, requires_grad=True)
        y = compiled(x, w)
        assert y.requires_grad
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            way(y, x, w)


def test_state_that_is_kept_with_its_graph_is_gone_through_by_a_later_pass():
    found = []
    for wrap in (lambda f: f, jtorch.compile):
        w, state = nn.Parameter(jtorch.ones(2)), {"h": jtorch.zeros(2)}

        def kept(x, w=w, state=state):
            state["h"] = jtorch.tanh(w * x + state["h"])
            return state["h"].sum()

        kept = wrap(kept)
        for k in range(1, 4):
            total = kept(jtorch.full((2,), float(k)))
        total.backward()
        found.append([total.item(), *w.grad.tolist()])
    assert found[1] == pytest.approx(found[0])


def test_state_that_is_passed_with_its_graph_is_gone_through_by_a_later_pass():
    w, found = nn.Parameter(jtorch.ones(2)), []

    def passed(x, h):
        return jtorch.tanh(w * x + h)

    for f in (passed, jtorch.compile(passed)):
        h = jtorch.zeros(2)
        for _ in range(3):
            h = f(jtorch.ones(2), h)
        w.grad = None
        h.sum().backward()
        found.append(w.grad.tolist())
    assert found[1] == pytest.approx(found[0])


# -- grad modes --------------------------------------------------------------------------------------------


@jtorch.enable_grad()
def _decorated(w, x):
    return w * x


def _set(w, x):
    with jtorch.set_grad_enabled(True):
        return w * x


def _not_inference(w, x):
    with jtorch.inference_mode(False):
        return w * x


def _in_part(w, x):
    y = w + x
    with jtorch.enable_grad():
        z = w * x
    return y, z, z.detach() * w


@pytest.mark.parametrize("outside", [jtorch.no_grad, jtorch.inference_mode, jtorch.enable_grad])
@pytest.mark.parametrize("way", [_decorated, _set, _not_inference, _in_part])
def test_a_grad_mode_inside_holds_against_that_of_the_caller(way, outside):
    found = []
    for f in (way, jtorch.compile(way)):
        w = nn.Parameter(jtorch.ones(2))
        for k in range(3):
            with outside():
                results = f(w, jtorch.full((2,), k + 1.0))
            results = results if isinstance(results, tuple) else (results,)
            found.append([r.requires_grad for r in results])
            if outside is jtorch.inference_mode and way is not _not_inference:  # which nothing switches on
                assert not any(found[-1])
                continue
            sum((r.sum() for r in results if r.requires_grad), start=jtorch.zeros(())).backward()
            found.append(w.grad.tolist())
    assert found[: len(found) // 2] == found[len(found) // 2 :]


# -- results that are changed before a backward outside ----------------------------------------------------


@pytest.mark.parametrize("change", [lambda e: e.mul_(2), lambda e: e.data.zero_(), lambda e: e[0].fill_(5)])
def test_what_a_backward_outside_needs_is_not_in_the_results(change):
    w = nn.Parameter(jtorch.tensor([0.0, 1.0]))
    e = jtorch.compile(lambda w: w.exp())(w)
    loss = (e * 1).sum()
    change(e.detach())
    loss.backward()
    assert w.grad.tolist() == pytest.approx(w.detach().exp().tolist())


def test_an_argument_that_is_changed_before_a_backward_outside_is_an_error():
    x, w = jtorch.tensor([1.0, 2.0]), nn.Parameter(jtorch.ones(2))
    loss = jtorch.compile(lambda x: (x * w).sum())(x)
    x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# -- retain_grad() inside ----------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
def test_a_result_retains_its_gradient_as_the_function_asked(compiled):
    w = jtorch.tensor([1.0, 2.0], requires_grad=True)

    def f(x):
        h = w * x
        h.retain_grad()
        return h

    f = jtorch.compile(f) if compiled else f
    for _ in range(2):
        h = f(jtorch.tensor([2.0, 3.0]))
        assert h.retains_grad
        (h * h).sum().backward()
        assert h.grad.tolist() == [4.0, 12.0]


@pytest.mark.parametrize("kept", ["returned", "in a dict", "in an attribute", "in a list"])
def test_a_gradient_that_nobody_can_retain_is_refused(kept):
    w = jtorch.tensor([1.0, 2.0], requires_grad=True)
    places, attributes, entries = {}, nn.Module(), []

    @jtorch.compile
    def f(x):
        h = w * x
        h.retain_grad()
        if kept == "in a dict":
            places["h"] = h
        elif kept == "in an attribute":
            attributes.h = h
        elif kept == "in a list":
            entries.append(h)
        return ((h * h).sum(), h) if kept == "returned" else (h * h).sum()

    with pytest.raises(CompileError, match="retain_grad"):
        f(jtorch.tensor([2.0, 3.0]))
    assert not places and not entries and not hasattr(attributes, "h")


def test_a_gradient_that_is_retained_and_known_inside():
    w, kept = jtorch.tensor([1.0, 2.0], requires_grad=True), {}

    @jtorch.compile
    def f(x):
        kept["h"] = h = w * x
        h.retain_grad()
        (h * h).sum().backward()

    for _ in range(2):
        f(jtorch.tensor([2.0, 3.0]))
        assert kept["h"].grad.tolist() == [4.0, 12.0]


@pytest.mark.parametrize("part", [False, True])
def test_a_result_says_that_it_retains_after_backward_inside(part):
    w, kept = jtorch.tensor([1.0, 2.0], requires_grad=True), nn.Module()

    def f(x, retaining):
        h = w * x
        if retaining:
            h.retain_grad()
        (h * h).sum().backward()
        kept.h = h
        return (h[:1], h) if part else h

    compiled = jtorch.compile(f)
    for retaining in (True, False, True):
        for function in (f, compiled):
            function(jtorch.tensor([2.0, 3.0]), retaining)
            assert kept.h.retains_grad is retaining
            assert not kept.h.is_leaf
            assert (kept.h.grad is not None) is retaining


# -- passes from some of the results -----------------------------------------------------------------------


class _Two(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        return (g.t() * 2).t() + h * 3


class _Asking(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        return (g == 0).to(g.dtype) + h


def test_a_function_that_asks_for_zeros_where_nobody_goes_back_from_runs_eagerly(monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)

    def gradient(f, k):
        x = jtorch.ones(3, requires_grad=True)
        f(x)[k].sum().backward()
        return x.grad.tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = jtorch.compile(_Asking.apply)
        for k in (0, 1, 1, 0):
            assert gradient(compiled, k) == gradient(_Asking.apply, k) == [2.0 * k] * 3


SEVERAL = {
    "var": lambda x: (x.sum(0), x.var(0, correction=0).sqrt()),
    "sqrt": lambda x: (x.sum(), (x * 0).sqrt().sum()),
    "log": lambda x: ((x * 2).sum(), (x * 0).log().sum(), x * x),
    "pow": lambda x: (x.sum(), (x * 0).pow(0.5), x.t() * 2),
    "computed from one another": lambda x: (lambda y: ((y * 0).sqrt().sum(), y.sum() * 2))(x * 3),
    "a view": lambda x: (x.t().sum(), (x * 0).sqrt().view(-1)[0]),
    "a matrix product": lambda x: (x.sum(), ((x * 0).sqrt() @ x.t()).sum()),
    "a custom Function": lambda x: (_Two.apply(x)[0], (_Two.apply(x)[1] * 0).sqrt()),
    "a custom Function and views": lambda x: (_Two.apply(x.t())[0].t()[:, 1:], (x * 0).sqrt()),
    "a shared part": lambda x: (lambda y: (y * 2, (y * 0).sqrt() + y))(x.exp()),
    "a maximum": lambda x: (x.max(1)[0], (x - x).norm(dim=1) / (x - x).sum()),
}


@pytest.mark.usefixtures("unjitted")
@pytest.mark.parametrize("dtype", [jtorch.float32, jtorch.float64])
@pytest.mark.parametrize("name", SEVERAL)
def test_a_pass_from_some_results_is_not_spoilt_by_the_others(name, dtype):
    """The derivative of a result that nobody goes back from may be infinite: zero times that is NaN."""
    f = SEVERAL[name]
    compiled = jtorch.compile(f)

    def gradients(f, parts):
        x = jtorch.tensor([[1.0, 2.0, 3.0]], dtype=dtype, requires_grad=True)
        results = f(x)
        jtorch.autograd.backward([results[k].sum() for k in parts])
        return x.grad

    n = len(f(jtorch.ones(1, 3)))
    for size in range(1, n + 1):
        for parts in itertools.combinations(range(n), size):
            found, expected = gradients(compiled, parts), gradients(f, parts)
            jtorch.testing.assert_close(found, expected, equal_nan=True)
    assert any(gradients(f, [k]).isfinite().all() for k in range(n))


class _OnesWhateverComes(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return jtorch.ones_like(g) * 7


def test_a_gradient_that_rests_on_nothing_is_refused_where_a_pass_may_not_come_by_it():
    with pytest.raises(CompileError, match="does not rest on"):
        jtorch.compile(lambda x: (_OnesWhateverComes.apply(x).sum(), x.sum()))(
            jtorch.ones(2, requires_grad=True)
        )
    x = jtorch.ones(2, requires_grad=True)
    jtorch.compile(lambda x: _OnesWhateverComes.apply(x).sum())(x).backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_a_result_whose_graph_is_broken_is_confirmed_after_a_change():
    """The pass that broke off had recorded something: the plan's graph is compared with another recording."""
    buffer, p = jtorch.ones(3), nn.Parameter(jtorch.ones(3))

    @jtorch.compile
    def f(x):
        y = buffer * x  # saves the buffer
        buffer.mul_(0.5)
        return (y + p) * 2

    x = jtorch.ones(3, requires_grad=True)
    for k in range(4):
        out = f(x)
        assert out.tolist() == [2 + 2 * 0.5**k] * 3
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
        p.requires_grad_(not p.requires_grad)
    assert len(f.retraces) <= 1, f.retraces


def _overwritten(x):
    made = x * 2
    made.zero_()
    made[:] = 3.0
    return made.sum(), (x * x).sum()


class _OfTheFirstAlone(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        return g, None


FED_BY_ZEROS = {
    "zeroed": lambda x: (x.clone().zero_(), x - 1),
    "overwritten": _overwritten,
    "no slope": lambda x: (x.sign(), x.floor() * 2, x.clamp(5, 6), x - 1),
    "a part of it": lambda x: (x[:1] * 2, x[1:] * 3),
    "not fed": lambda x: (_OfTheFirstAlone.apply(x.detach() + (x.detach() * 2).requires_grad_(), x), x - 1),
    "the leaf itself": lambda x: (x, x * 3),
}


@pytest.mark.parametrize("name", FED_BY_ZEROS)
def test_one_of_several_results_gives_a_gradient_where_the_tape_leads(name):
    """Also one that is zero whatever its own is, as where all it was computed from is overwritten."""
    function = FED_BY_ZEROS[name]
    for mode in ("default", "interpret"):
        seen = []
        for f in (function, jtorch.compile(function, mode=mode)):
            for k in range(len(function(jtorch.ones(2)))):
                x = jtorch.tensor([1.0, 2.0], requires_grad=True)
                f(x)[k].sum().backward()
                seen.append((k, None if x.grad is None else x.grad.tolist()))
        assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def test_a_gradient_with_a_graph_of_its_own_is_eager_modes():
    def run(wrap):
        w = nn.Parameter(jtorch.tensor([2.0]))

        @wrap
        def f(x):
            (w**3 * x).sum().backward(create_graph=True)

        f(jtorch.ones(1))
        (second,) = jtorch.autograd.grad(w.grad.sum(), w)
        return w.grad.item(), w.grad.requires_grad, second.item()

    with pytest.warns(jtorch.errors.EagerWarning, match="has a graph of its own"):
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f) == (12.0, True, 12.0)


def test_gradients_that_fit_their_tensor_no_more_are_eager_modes():
    def run(wrap):
        w = nn.Parameter(jtorch.ones(2))

        @wrap
        def f(x):
            (w * x).sum().backward()
            return w.grad.clone()

        told = [f(jtorch.ones(2)).tolist()]
        for new in (jtorch.ones(1), jtorch.ones(2).double(), jtorch.ones(2)):  # the gradient stays as it is
            w.data = new
            told.append((f(jtorch.ones(2)).tolist(), w.grad.dtype))
        w.grad = jtorch.ones(2, requires_grad=True)
        told.append(f(jtorch.ones(2)).requires_grad)
        return told

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)
