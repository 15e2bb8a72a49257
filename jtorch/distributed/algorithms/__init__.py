"""What is made of collectives: hooks that send gradients, and training on uneven inputs."""

from jtorch.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
