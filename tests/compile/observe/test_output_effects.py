"""Output that each call puts out when its kernels have run: what is printed, logged, written to streams and
appended, with texts of what only a replay knows, beside eager mode, in its order and never twice."""

import contextlib
import dis
import io
import logging
import sys
import warnings

import pytest

import jtorch
from jtorch.compile.observe.late_texts import receiver
from jtorch.compile.observe.stack_depth import depths
from jtorch.core.errors import CompileError

LOG = logging.getLogger("jtorch_test.output_effects")
LOG.setLevel(logging.INFO)
LOG.propagate = False
LINES: list = []
OUT = io.StringIO()
W = jtorch.ones(3, requires_grad=True)


class Tee(io.StringIO):
    n = 0

    def write(self, text):
        self.n += len(text)
        return super().write(text)


class Kept:
    def __init__(self):
        self.texts = []

    def write(self, text):
        self.texts.append(text)


PARAMETER = jtorch.nn.Parameter(jtorch.ones(2))
TEE, KEPT = Tee(), Kept()


@jtorch.compiler.disable
def aside(x):
    print("aside")
    return x + 1


# -- what each replay does -----------------------------------------------------------------------------------


def numbers(x, k, lr):
    y = x.sum()
    print("a", y.item(), k, lr, x.shape, x.shape[0], len(x), sep=" | ", end=f" {k}\n")
    print(f"b {y.item():.3f} {k:>4} {lr} {x.shape[0]:03d} {y} {y:.2f} {'c'!r} {len(x)} {x.shape}")
    print("c %.3f %d %s" % (y.item(), k, "s"), "%.1f" % y, "%d" % k, "%5.1f%%" % lr)  # noqa: UP031
    print("{:.1f} {}".format(y.item(), k), "{:>5}".format(k), str(y.item()), repr(lr))  # noqa: UP032
    print(round(y.item(), 2), format(y, ".1f"), "d " + str(k) + "!" + f"{lr:.1f}")
    print([y.item(), {"k": k}], (k, None, True, 1j, b"x"), y.item() > 2, y.dtype, y.device)
    print(*[1, k, y.item()], **{"sep": "-"})
    print()
    return y * lr


def tensors(x, k, lr):
    y = x * 1
    print(y, [y], f"{y} {y}", f"{y:}", str(y), repr(y), "{} %".format(y), "%s" % y)  # noqa: UP031, UP032
    print(f"{y}", y.add_(1))
    print(f"{y}" + str(W), f"{W} {W.sum():.2f} {x}", "%g %.1f" % (y.sum(), y.mean()))  # noqa: UP031
    y.add_(k)
    print(y, y.tolist(), y.sum().tolist())
    z = (x * W).sum()
    print(z, W, [z], f"{z:.2f}", x.mean())
    z.backward()
    print(W.grad, z.detach(), jtorch.zeros(2, 0), y > k)
    W.grad = None
    return y.zero_()


def logged(x, k, lr):
    y = x.sum()
    LOG.info("d %s %.2f", k, y.item())
    LOG.warning(f"e {y.item():.2e}")
    LOG.log(40, "f %r", [k, y.item()])
    LOG.error("g %(k)s", {"k": k})
    LOG.debug(f"no {y.item()}")
    return y


def written(x, k, lr):
    sys.stdout.write(f"f {x.sum().item():g}\n")
    OUT.writelines([f"{k}", "b\n"])
    print(f"{k}", file=OUT, flush=True)
    sys.stdout.flush()


def appended(x, k, lr):
    LINES.append(f"{k} {x.sum().item():.2f}")
    LINES.append(x.sum().item())
    LINES.append("s%d" % k)  # noqa: UP031
    LINES.append(x.tolist())
    LINES.append(round(x.sum().item(), 2))
    append = LINES.append
    append(["t" + str(lr), (f"{k}", x.tolist(), x.sum().item())])


def raising(x, k, lr):
    print("before", x.sum().item())
    if k > 2:
        raise ValueError(f"bad {k}")
    print("after")


def hooked(x, k, lr):
    w = jtorch.ones(3, requires_grad=True)
    w.register_hook(lambda g: print("hook", g.sum().item(), k))
    (x * w * k).sum().backward()
    return w.grad


def checkpointed(x, k, lr):
    w = x.clone().requires_grad_()

    def f(a):
        print("forward", a.sum().item())
        return a * a

    jtorch.utils.checkpoint.checkpoint(f, w, use_reentrant=False).sum().backward()
    return w.grad


def looped(x, k, lr):
    for i in range(3):
        print(i, k, (x * i).sum().item())
    return [print("c", j, k) for j in range(2)]


def after_one_aside(x, k, lr):
    y = aside(x)
    print("then", k)
    return y


def wrong_format(x, k, lr):
    print(f"{k:.3q}")


def too_few_arguments(x, k, lr):
    print("%d %d" % (k,))  # noqa: UP031, F507


def wrong_stream(x, k, lr):
    print(x.sum().item(), file=3)


# -- what runs eagerly, or counts by value -------------------------------------------------------------------


def own_stream(x, k, lr):
    stream = io.StringIO()
    print(f"{k} {x.sum().item()}", file=stream)
    return stream.getvalue()


def own_stream_written(x, k, lr):
    stream = io.StringIO()
    stream.write(f"{k} {x.sum().item()}")
    return stream.getvalue()


def own_list(x, k, lr):
    lines = []
    lines.append(f"{k}")
    lines.append([f"{k}"])
    lines.append((1, [x.tolist()]))
    return lines


def users_stream(x, k, lr):
    write = TEE.write
    write(f"{k} {x.sum().item()}")
    print(f"{k} {x.sum().item()}", file=TEE)
    return TEE.n


def users_writer(x, k, lr):
    print(f"{k} {x.sum().item()}", k, file=KEPT)
    return len(KEPT.texts)


def redirected(x, k, lr):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        print("x", x.sum().item())
    return stream.getvalue()


def in_an_order(x, k, lr):
    print("a", k)
    aside(x)
    print("b", k)


def looked_at(x, k, lr):
    print(len(f"{k}"), f"{k}"[0], f"{k}" == "3", (f"{k}",), f"{k}".upper(), f"{f'{k}':>5}", f"{k}" * 2)
    print(f"{k}" if k > 2 else "no", f"{x.sum():.1f}" or 3)
    print(round(x.sum().item(), 1) + 1)
    print(x.tolist()[0], {"a": x.tolist()}, {f"{k}": 1})
    print(PARAMETER, f"{PARAMETER}", str(PARAMETER))
    with jtorch.no_grad():
        PARAMETER.add_(1)


def count_of_written(x, k, lr):
    return OUT.write(f"{k}")


def read_again(x, k, lr):
    LINES.append(f"{k}")
    return LINES[-1], len(LINES)


def with_a_list_that_grows(x, k, lr):
    print(LINES)
    LINES.append(x.sum().item())
    LOG.info("%s", LINES)
    return print([LINES], (k, LINES))


def raising_where_it_stands(x, k, lr):
    y = x.sum() * float("nan")
    try:
        print("%d" % y.item())  # noqa: UP031
    except ValueError:
        print("no number")
        return x * 2
    return x


class Counted(logging.Formatter):
    n = 0

    def format(self, record):
        Counted.n += 1
        return record.getMessage()


def formatted_by_the_users_class(x, k, lr):
    logging.getLogger("jtorch_test.counted").error("x %s", k)
    return x * Counted.n


HANDLER = logging.StreamHandler(io.StringIO())
HANDLER.setFormatter(Counted())
logging.getLogger("jtorch_test.counted").addHandler(HANDLER)
logging.getLogger("jtorch_test.counted").propagate = False


LATER = (
    numbers, tensors, logged, written, appended, raising, hooked, checkpointed, looped, after_one_aside,
    wrong_format, too_few_arguments, wrong_stream,
)  # fmt: skip
AT_ONCE = (
    own_stream, own_stream_written, own_list, users_stream, users_writer, redirected, in_an_order, looked_at,
    count_of_written, read_again, with_a_list_that_grows, raising_where_it_stands,
    formatted_by_the_users_class,
)  # fmt: skip


def _shown(function):
    """All that calls of ``function`` leave."""
    LINES.clear()
    with jtorch.no_grad():
        PARAMETER.fill_(1.0)
    KEPT.texts.clear()
    for stream in (OUT, TEE):
        stream.seek(0)
        stream.truncate()
    TEE.n = Counted.n = 0
    printed, logs, results = io.StringIO(), io.StringIO(), []
    handler = logging.StreamHandler(logs)
    handler.setFormatter(logging.Formatter("%(filename)s:%(lineno)d:%(funcName)s:%(message)s"))
    LOG.addHandler(handler)
    try:
        with contextlib.redirect_stdout(printed):
            for k in (5, 5, 4, 3, 2, 7, 6, 1, 0, -3, 9):
                x = jtorch.arange(3.0 * (abs(k) % 3 + 1)).reshape(-1, 3) * (k + 1)
                try:
                    result = function(x, k, 0.1 * k)
                except (ValueError, TypeError, AttributeError) as error:
                    result = type(error), str(error)
                results.append(result.tolist() if isinstance(result, jtorch.Tensor) else result)
    finally:
        LOG.removeHandler(handler)
    return (
        printed.getvalue(),
        logs.getvalue(),
        results,
        OUT.getvalue(),
        TEE.getvalue(),
        TEE.n,
        [*LINES],
        [*KEPT.texts],
    )


@pytest.mark.slow
@pytest.mark.parametrize("function", LATER, ids=lambda f: f.__name__)
def test_each_call_puts_out_what_eager_mode_does(function):
    expected = _shown(function)
    for options in ({}, {"dynamic": True}, {"dynamic": False}, {"fullgraph": True}):
        compiled = jtorch.compile(function, **{"fullgraph": False, **options})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert _shown(compiled) == expected, options
        assert not [w for w in told if "eagerly" in str(w.message) or "recorded, not" in str(w.message)]
        if options == {}:
            assert len(compiled.retraces) <= 4, compiled.retraces


@pytest.mark.parametrize("function", AT_ONCE, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore")
def test_what_somebody_may_look_at_is_not_put_off(function):
    expected = _shown(function)
    for options in ({}, {"dynamic": True}):
        assert _shown(jtorch.compile(function, fullgraph=False, **options)) == expected, options


def test_a_disabled_function_after_output_names_its_line():
    compiled = jtorch.compile(in_an_order, fullgraph=True)
    with pytest.raises(CompileError, match=r"test_output_effects.py.*after it has put something out"):
        compiled(jtorch.ones(2), 1, 0.1)


@pytest.mark.usefixtures("capsys")
def test_a_stream_of_the_users_for_stdout_gets_it_at_once(monkeypatch):
    kept = Tee()
    monkeypatch.setattr(sys, "stdout", kept)

    @jtorch.compile(fullgraph=False)
    def f(x):
        print(x.sum().item())
        return kept.n

    with pytest.warns(UserWarning, match="run eagerly"):
        assert [f(jtorch.ones(2)), f(jtorch.ones(3))] == [4, 8]


def test_who_gets_a_text():
    def f(x, y):
        print(f"{x} a")
        print("a" + f"{x}", y)
        y(f"{x}"[0])
        return f"{x}"

    known = [it for it in dis.get_instructions(f) if it.opname in ("FORMAT_VALUE", "FORMAT_SIMPLE")]
    depth = depths(f.__code__, [*dis.get_instructions(f)])
    found = [receiver(f.__code__, it.offset, depth[it.offset]) for it in known]
    assert [place is not None for place in found] == [True, True, False, False]


def test_elements_that_are_handed_on_are_called_so():
    """Where the result is used the call can't be put off; nothing there is a text."""

    def returned(x):
        return LINES.append(x.tolist())

    with pytest.raises(CompileError, match=r"hands the elements of a tensor.* to append\(\).*unused"):
        jtorch.compile(returned, fullgraph=True)(jtorch.ones(2))

    def shown(x):
        return LINES.append(f"{x.sum().item():.2f}")

    with pytest.raises(CompileError, match=r"a text"):
        jtorch.compile(shown, fullgraph=True)(jtorch.ones(2))
