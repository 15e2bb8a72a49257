"""What may be done about a further recording: a sentence that fits what changed, from what to what."""

from __future__ import annotations

import ast
import re

FOR_CLASSES = "each class that comes has a plan of its own"
IN_TENSORS = (
    "the function counts on it and needs its digits: keep it in a tensor and change that in "
    "place, or count outside and pass in what is computed from it"
)
NOT_USED = (
    "what is recorded is the same, so its plan stays: looking again is all that it costs. Where it happens "
    "at every step, keep what changes in an object of its own that the function does not hold"
)
_COUNTS = (
    "an integer that moves is read at each call from the second one on; where its digits are needed (a size, "
    "a text, a key), and with dynamic=False, each is recorded: a number that only meets tensors may be a "
    "float (float({0})), or a tensor"
)
_REPLACED = "from here on what is there is read at each call, as an argument is"
_ON_INTEGER = (
    "an integer that moves is read at each call from the second one on, or a symbol as sizes are: this plan "
    "serves all others"
)
_ON_DIGITS = (
    "its digits are needed at {0}, so each is recorded: a number that only meets tensors and arithmetic, or "
    "is a size or an index, may change freely"
)
ON_NUMPY = (
    "a number of NumPy's is read at each call where it is computed with; of this one more is asked (digits, "
    "a text, an index), so each is recorded"
)
_ONE_OF_TWO = "its value decides what is recorded: each is a program of its own, recorded once"
_PASS = "from here on it is read at each call, as a float argument is from the first one on"
OF_FORMS = "each length is another program, recorded once: pad to a fixed one, or keep it in a tensor"
_OPENED = (
    "numbers in it, and arrays and tensors beside them, are read at each call from here on; another length, "
    "class or text in it is another program, as is what it holds where the function changes it, returns it "
    "or needs its digits"
)
_OTHER = "its value decides what is recorded: pass a float, or a tensor, where any value should do"

_ON_SYMBOL = (
    "a size that moves is a symbol from the second one on: this plan serves all others; with dynamic=True it "
    "is one from the first call on"
)
_ON_EXACT = "each size has a plan of its own: {0}"
_PARTIAL = "each size has a plan of its own: compile without dynamic=False, or drop the last partial batch"
_GROWS = (
    "each size has a plan of its own: compile without dynamic=False, or pad to one of a few lengths and mask "
    "what is beyond"
)
_SMALL = (
    "sizes of 0 and 1 have plans of their own, and so have NumPy arrays, tensors that the function reaches "
    "by itself, and tensors that do not lie row by row"
)
_RANK = "each number of dimensions is another program, recorded once: pass one form (unsqueeze, flatten)"

# What the name of a fact ends or begins with, and what may be done about it
_BY_NAME = (
    (r"\.dtype$", "each dtype is another program, recorded once: to have one, convert before the call"),
    (r"\.stride\(\)$", "each layout is another program, recorded once: pass .contiguous() tensors"),
    (r"^arguments$", "pass the same arguments in the same form"),
    (r"^gradients$", "call it under the same grad mode, or compile one function for each"),
    (r"\.training$", "train() and eval() are two programs: each is recorded once, toggling costs nothing"),
    (r"requires_grad$", "freeze before the first call"),
    (r"^hooks of ", "register hooks before the first call"),
    (
        r"\.grad$",
        "with gradients and without them are two programs, each recorded once: zero_grad(set_to_none=True) "
        "at the same place of each step makes it one",
    ),
    (r"^memory of ", "write into tensors (copy_) instead of replacing them"),
    (r"param_groups", "set flags before the first call; rates may change freely"),
    (r"^(id|type)\(", "pass the same object, or take from it what the function needs"),
)


def advice_on(what: str, before: str, after: str, again: bool = False) -> str:
    """What avoids a recording because ``what`` was ``before`` and is ``after``; ``again``: it has changed in
    earlier retraces, too."""
    if what.endswith(".shape"):
        return _on_sizes(before, after, again)
    for pattern, text in _BY_NAME:
        if re.search(pattern, what):
            return text
    if re.fullmatch(r"-?\d+", before) and re.fullmatch(r"-?\d+", after):
        return _COUNTS.format(re.split(r"[, ]", what)[0].strip("'"))
    if all(map(_is_float, (before, after))):
        return _PASS
    if before == after == "a Tensor":
        return _REPLACED
    if before == after and after in ("a list", "a tuple", "a dict", "a deque"):
        return _OPENED
    is_word = before[:1] in "'\"" and after[:1] in "'\""
    return _ONE_OF_TWO if is_word or {before, after} <= {"True", "False", "None"} else _OTHER


def on_new_size(is_symbol: bool, why_exact: str, may_be_symbol: bool) -> str:
    """What there is to say of a size for which a plan has just been made; nothing where what was said of it
    before holds."""
    if is_symbol:
        return _ON_SYMBOL
    if why_exact:
        return _ON_EXACT.format(why_exact)
    return _SMALL if may_be_symbol else ""


def on_new_integer(needed_at: str) -> str:
    """The same of an integer, whose digits are ``needed_at`` a line or nowhere."""
    return _ON_DIGITS.format(needed_at) if needed_at else _ON_INTEGER


def _is_float(text: str) -> bool:
    try:
        float(re.sub(r"^np\.(float|int)\d+\((.*)\)$", r"\2", text))
    except ValueError:
        return False
    return True


def same_rank(before: str, after: str) -> bool:
    """Whether two shapes have as many dimensions."""
    return before.count(",") == after.count(",") and (before == "()") == (after == "()")


def _on_sizes(before: str, after: str, again: bool) -> str:
    """A last batch is smaller in its first axis alone, once; all else is a size that goes on changing."""
    try:
        was, now = ast.literal_eval(before), ast.literal_eval(after)
    except (ValueError, SyntaxError):  # it was no tensor
        return _GROWS
    if not same_rank(before, after):
        return _RANK
    is_last_batch = bool(was) and was[1:] == now[1:] and now[0] < was[0] and not again
    return _PARTIAL if is_last_batch else _GROWS
