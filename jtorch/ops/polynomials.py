"""Orthogonal polynomials: the element of ``input`` under the polynomial of degree ``n``, a whole number
(0 of a negative degree, nan of one that is no integer of 64 bits).

Source: https://docs.pytorch.org/docs/stable/special.html
"""

from __future__ import annotations

from jtorch.core.op import elementwise

DEGREES = {
    "chebyshev_polynomial_t": "The Chebyshev polynomial of the first kind.",
    "chebyshev_polynomial_u": "The Chebyshev polynomial of the second kind.",
    "chebyshev_polynomial_v": "The Chebyshev polynomial of the third kind.",
    "chebyshev_polynomial_w": "The Chebyshev polynomial of the fourth kind.",
    "shifted_chebyshev_polynomial_t": "The Chebyshev polynomial of the first kind, of 2 x - 1.",
    "shifted_chebyshev_polynomial_u": "The Chebyshev polynomial of the second kind, of 2 x - 1.",
    "shifted_chebyshev_polynomial_v": "The Chebyshev polynomial of the third kind, of 2 x - 1.",
    "shifted_chebyshev_polynomial_w": "The Chebyshev polynomial of the fourth kind, of 2 x - 1.",
    "hermite_polynomial_h": "The physicist's Hermite polynomial.",
    "hermite_polynomial_he": "The probabilist's Hermite polynomial.",
    "laguerre_polynomial_l": "The Laguerre polynomial.",
    "legendre_polynomial_p": "The Legendre polynomial.",
}


def _declare(name, sentence):
    def polynomial(xp, x, n):
        return getattr(xp, name)(x, n)

    polynomial.__doc__ = sentence
    elementwise(name=name, dtype="float", public=None, differentiable=False)(polynomial)


for _name, _sentence in DEGREES.items():
    _declare(_name, _sentence)
