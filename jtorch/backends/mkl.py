"""MKL: not used by this build."""


def is_available() -> bool:
    return False
