"""``python -m jtorch.config`` prints every setting, what it is now, and what it does."""

from jtorch.core.config import SETTINGS as SETTINGS
from jtorch.core.config import get as get
from jtorch.core.config import table as table

if __name__ == "__main__":
    print(table())
