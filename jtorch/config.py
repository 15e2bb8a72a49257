"""``python -m jtorch.config`` prints every setting, what it is now, and what it does."""

from jtorch.core.config import SETTINGS as SETTINGS, get as get, table as table

if __name__ == "__main__":
    import sys

    from jtorch.core.command import run

    if sys.argv[1:]:
        print(f"python -m jtorch.config takes no arguments, got {' '.join(sys.argv[1:])}", file=sys.stderr)
        raise SystemExit(2)
    raise SystemExit(run(lambda: print(table()), "python -m jtorch.config"))
