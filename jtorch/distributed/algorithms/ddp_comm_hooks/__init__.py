"""Hooks that send the gradients of ``DistributedDataParallel``: ``model.register_comm_hook(state, hook)``.

Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
"""
