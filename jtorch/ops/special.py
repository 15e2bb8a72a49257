"""Special functions, from SciPy; in compiled code library calls, but for those with a text.

Those that only ``jtorch.special`` names have no public function here.
Source: https://docs.pytorch.org/docs/stable/special.html
"""

from __future__ import annotations

import math

from jtorch.core.op import composite, elementwise

_SQRT_PI = math.sqrt(math.pi)
_NDTR_SLOPE = 1.0 / math.sqrt(2.0 * math.pi)


def _of_special(name, **facts):
    """An op that ``jtorch.special`` alone offers."""
    parts = "".join(part.capitalize() for part in name.split("_"))
    return elementwise(name=name, dtype="float", public=None, grad_name=f"Special{parts}Backward0", **facts)


# -- error functions ---------------------------------------------------------------------------------


@elementwise(text="erf_{t}({x})", costly=True, dtype="float", in_place=True, fuses=True, ordered=True)
def erf(xp, x):
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return xp.erf(x)


@erf.vjp
def _(xp, g, x):
    return g * (xp.exp(-(x * x)) * (2.0 / _SQRT_PI))


@elementwise(text="erfc_{t}({x})", costly=True, dtype="float", in_place=True, fuses=True, ordered=True)
def erfc(xp, x):
    """1 - erf(x)"""
    return xp.erfc(x)


@erfc.vjp
def _(xp, g, x):
    return g * (xp.exp(-(x * x)) * (-2.0 / _SQRT_PI))


@elementwise(dtype="float", in_place=True, autocast={"cuda": "float32"})
def erfinv(xp, x):
    """The x whose erf is given; infinite at -1 and 1, NaN beyond."""
    return xp.erfinv(x)


@erfinv.vjp
def _(xp, g, out):
    return g * (xp.exp(out * out) * (0.5 * _SQRT_PI))


@_of_special("erfcx")
def erfcx(xp, x):
    """exp(x x) erfc(x)"""
    return xp.erfcx(x)


@erfcx.vjp
def _(xp, g, x, out):
    return g * (2.0 * x * out - 2.0 / _SQRT_PI)


@composite(dtype="float", public=None, grad_name="SpecialNdtrBackward0")
def ndtr(xp, x):
    """The distribution function of the standard normal."""
    return xp.erfc(x * -math.sqrt(0.5)) * 0.5


@ndtr.vjp
def _(xp, g, x):
    return g * (xp.exp(x * x * -0.5) * _NDTR_SLOPE)


@_of_special("ndtri")
def ndtri(xp, x):
    """The inverse of ``ndtr``."""
    return xp.ndtri(x)


@ndtri.vjp
def _(xp, g, out):
    return g * (xp.exp(out * out * 0.5) * (1.0 / _NDTR_SLOPE))


@_of_special("log_ndtr")
def log_ndtr(xp, x):
    """The logarithm of ``ndtr``, without underflow."""
    return xp.log_ndtr(x)


@log_ndtr.vjp
def _(xp, g, x):
    # the density over the distribution function: both underflow, their scaled forms do not
    return g / xp.erfcx(x * -math.sqrt(0.5)) * math.sqrt(2.0 / math.pi)


@composite(dtype="float", public=None, grad_name="SpecialEntrBackward0")
def entr(xp, x):
    """-x log(x), 0 at 0 and -inf below."""
    inside = xp.where(xp.eq(x, 0.0), 0.0, -x * xp.log(x))
    return xp.where(xp.lt(x, 0.0), -math.inf, inside)


@entr.vjp
def _(xp, g, x):
    return g * (-xp.log(x) - 1.0)


# -- the gamma function ----------------------------------------------------------------------------------


@elementwise(dtype="float", in_place=True)
def lgamma(xp, x):
    """log |gamma(x)|"""
    return xp.lgamma(x)


@lgamma.vjp
def _(xp, g, x):
    return g * xp.digamma(x)


@elementwise(dtype="float", in_place=True)
def digamma(xp, x):
    """The derivative of ``lgamma``."""
    return xp.digamma(x)


@digamma.vjp
def _(xp, g, x):
    return g * xp.polygamma(x, n=1)


@elementwise(dtype="float", public=None)
def polygamma(xp, x, *, n):
    """The ``n``-th derivative of ``digamma``."""
    return xp.polygamma(x, n=n)


@polygamma.vjp
def _(xp, g, x, n):
    return g * xp.polygamma(x, n=n + 1)


@elementwise(dtype="float", public="igamma", methods=("igamma",), in_place=True, tensors_only=True)
def gammainc(xp, x, y):
    """The regularised lower incomplete gamma function P(x, y). Its gradient is that of y."""
    return xp.gammainc(x, y)


@elementwise(dtype="float", public="igammac", methods=("igammac",), in_place=True, tensors_only=True)
def gammaincc(xp, x, y):
    """The regularised upper incomplete gamma function Q(x, y). Its gradient is that of y."""
    return xp.gammaincc(x, y)


def _gamma_density(xp, x, y):
    """d/dy P(x, y) = y**(x - 1) exp(-y) / gamma(x)"""
    return xp.exp((x - 1.0) * xp.log(y) - y - xp.lgamma(x))


def _only_second(name, needs):
    if needs[0]:
        raise NotImplementedError(f"the derivative for '{name}: input' is not implemented.")


@gammainc.vjp
def _(xp, g, x, y, needs):
    _only_second("igamma", needs)
    return None, g * _gamma_density(xp, x, y)


@gammaincc.vjp
def _(xp, g, x, y, needs):
    _only_second("igammac", needs)
    return None, -g * _gamma_density(xp, x, y)


@_of_special("zeta")
def zeta(xp, x, y):
    """The Hurwitz zeta function. Its gradient is that of y."""
    return xp.zeta(x, y)


@zeta.vjp
def _(xp, g, x, y, needs):
    _only_second("zeta", needs)
    return None, g * (-x * xp.zeta(x + 1.0, y))


# -- Bessel functions -----------------------------------------------------------------------------------


@elementwise(dtype="float", in_place=True)
def i0(xp, x):
    """The modified Bessel function of the first kind, of order 0."""
    return xp.i0(x)


@i0.vjp
def _(xp, g, x):
    return g * xp.i1(x)


@_of_special("i0e")
def i0e(xp, x):
    """exp(-|x|) i0(x)"""
    return xp.i0e(x)


@i0e.vjp
def _(xp, g, x, out):
    return g * (xp.i1e(x) - xp.sign(x) * out)


@_of_special("i1")
def i1(xp, x):
    """The modified Bessel function of the first kind, of order 1."""
    return xp.i1(x)


@i1.vjp
def _(xp, g, x, out):
    return g * (xp.i0(x) - _over_x(xp, out, x))


@_of_special("i1e")
def i1e(xp, x):
    """exp(-|x|) i1(x)"""
    return xp.i1e(x)


@i1e.vjp
def _(xp, g, x, out):
    return g * (xp.i0e(x) - xp.sign(x) * out - _over_x(xp, out, x))


def _over_x(xp, out, x):
    """i1(x) / x, which is 1/2 near 0, where i1(x) itself may be too small for a number; the divisor is kept
    from 0 so that its gradient is no NaN."""
    near = xp.lt(xp.abs(x), 1e-30)
    return xp.where(near, 0.5, out / xp.where(near, 1.0, x))


def _without_gradient(name, sentence):
    """Functions that PyTorch does not differentiate, either."""

    def body(xp, x):
        return getattr(xp, name)(x)

    body.__doc__ = sentence
    _of_special(name, differentiable=False)(body)


for _name, _sentence in {
    "bessel_j0": "The Bessel function of the first kind, of order 0.",
    "bessel_j1": "The Bessel function of the first kind, of order 1.",
    "bessel_y0": "The Bessel function of the second kind, of order 0.",
    "bessel_y1": "The Bessel function of the second kind, of order 1.",
    "modified_bessel_k0": "The modified Bessel function of the second kind, of order 0.",
    "modified_bessel_k1": "The modified Bessel function of the second kind, of order 1.",
    "scaled_modified_bessel_k0": "exp(x) modified_bessel_k0(x)",
    "scaled_modified_bessel_k1": "exp(x) modified_bessel_k1(x)",
    "spherical_bessel_j0": "sin(x) / x, 1 at 0: the spherical Bessel function of order 0.",
    "airy_ai": "The Airy function Ai.",
}.items():
    _without_gradient(_name, _sentence)
