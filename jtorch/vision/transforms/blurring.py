"""An image blurred at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch import nn
from jtorch.vision.transforms import functional as F
from jtorch.vision.transforms.arguments import two, uniform


class GaussianBlur(nn.Module):
    """``functional.gaussian_blur`` with a ``sigma`` drawn between two bounds, or the one that is given.

    ``kernel_size`` is odd: one number, or (across, down). Raises ValueError for other sizes and for a sigma
    that is not positive.

    >>> import jtorch
    >>> from jtorch.vision import transforms
    >>> image = jtorch.zeros(1, 3, 3)
    >>> image[0, 1, 1] = 1.0
    >>> print(f"{transforms.GaussianBlur(3, sigma=1.0)(image)[0, 1, 1].item():.3f}")
    0.204
    """

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = two(kernel_size, "Kernel size should be a tuple/list of two integers")
        for size in self.kernel_size:
            if size <= 0 or size % 2 == 0:
                raise ValueError("Kernel size value should be an odd and positive number.")
        if isinstance(sigma, (int, float)):
            if sigma <= 0:
                raise ValueError("If sigma is a single number, it must be positive.")
            sigma = (sigma, sigma)
        elif len(sigma) != 2 or not 0.0 < sigma[0] <= sigma[1]:
            raise ValueError(f"sigma values should be positive and of the form (min, max). Got {sigma}")
        self.sigma = sigma

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """A sigma between the two."""
        return uniform(sigma_min, sigma_max)

    def forward(self, img: Any) -> Any:
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, list(self.kernel_size), [sigma, sigma])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernel_size={self.kernel_size}, sigma={self.sigma})"
