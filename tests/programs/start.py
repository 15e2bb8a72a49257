"""What the programs begin with: arguments, and the same numbers in every library."""

import argparse

import numpy as np
import torch


def arguments(**extra):
    """--steps, --init and what ``extra`` adds (name -> default)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--init", help="an .npz of initial parameters by name")
    for name, default in extra.items():
        parser.add_argument(f"--{name}", default=default)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    return parser.parse_args()


def initialise(model, init=None, seed=0):
    """Parameters from a file, or from NumPy: whatever the library's own start would be."""
    rng = np.random.default_rng(seed)
    given = np.load(init) if init else None
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shape = tuple(parameter.shape)
            if given is not None:
                values = given[name]
            elif parameter.dim() > 1:
                values = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
            elif "weight" in name:
                values = 1 + 0.1 * rng.standard_normal(shape)
            else:
                values = 0.1 * rng.standard_normal(shape)
            parameter.copy_(torch.from_numpy(np.asarray(values)))
    return model


def show(loss):
    number = loss.detach().item() if torch.is_tensor(loss) else float(loss)
    print(f"{number:.12g}")
