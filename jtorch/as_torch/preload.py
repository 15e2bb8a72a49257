"""Imported by the server that forks processes: they have the import hook from their beginning."""

from jtorch.as_torch.aliases import install

install()
