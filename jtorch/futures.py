"""``jtorch.futures``: values that are still to come, of collectives under way.

Nothing runs in the background: a future looks whether its value is there when it is asked.
Source: https://docs.pytorch.org/docs/stable/futures.html
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value that comes later: set by ``set_result``, or that of a collective (``work.get_future()``).

    >>> import jtorch
    >>> future = jtorch.futures.Future()
    >>> twice = future.then(lambda f: 2 * f.value())
    >>> future.set_result(3)
    >>> twice.wait()
    6

    Source: https://docs.pytorch.org/docs/stable/futures.html#torch.futures.Future
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._ready: Callable[[], bool] | None = None
        self._fetch: Callable[[], Any] | None = None
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    @classmethod
    def of(cls, ready: Callable[[], bool], fetch: Callable[[], Any]) -> Future:
        """The future of ``fetch()``, which waits if it must; ``ready`` tells whether it would."""
        future = cls()
        future._ready, future._fetch = ready, fetch
        return future

    def done(self) -> bool:
        """Whether the value (or an exception) is there."""
        if not self._is_done and self._ready is not None and self._ready():
            self._take()
        return self._is_done

    def wait(self) -> Any:
        """The value, once it is there; raises what took its place."""
        if not self._is_done and self._fetch is not None:
            self._take()
        while not self._is_done:
            time.sleep(0.0005)
        return self.value()

    def value(self) -> Any:
        """The value, which must be there."""
        if not self.done():
            raise RuntimeError("Future is not completed: wait() for it")
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The future of ``callback(self)``, which is called when this one is done."""
        if self._fetch is None:
            return self._chained(callback)

        def fetch() -> Any:
            if not self._is_done:
                self._take()
            return callback(self)

        return Future.of(self.done, fetch)

    def _chained(self, callback: Callable[[Future], Any]) -> Future:
        child = Future()

        def pass_on(parent: Future) -> None:
            try:
                child.set_result(callback(parent))
            except Exception as error:
                child.set_exception(error)

        self.add_done_callback(pass_on)
        return child

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call ``callback(self)`` when it is done; what that returns is dropped."""
        if self._is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def set_result(self, result: Any) -> None:
        """Give it its value."""
        if self._is_done:
            raise RuntimeError("Future already has a result")
        self._settle(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Let ``wait`` and ``value`` raise this."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._settle(None, result)

    def _take(self) -> None:
        assert self._fetch is not None
        fetch, self._ready = self._fetch, None
        try:
            value, error = fetch(), None
        except Exception as raised:
            value, error = None, raised
        self._settle(value, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        self._value, self._error, self._is_done = value, error, True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


def collect_all(futures: Sequence[Future]) -> Future:
    """The future of the list of all of them, when they are done."""

    def fetch() -> list[Future]:
        for future in futures:
            try:
                future.wait()
            except Exception:  # who asks the future gets it
                continue
        return list(futures)

    return Future.of(lambda: all(f.done() for f in futures), fetch)


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The values of all of them; raises the first exception among them."""
    return [future.wait() for future in futures]
