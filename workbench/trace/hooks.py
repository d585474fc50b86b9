"""Hooks that several threads use at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from torch import nn
from torch.utils.hooks import RemovableHandle

__all__ = ["SharedHooks"]


class SharedHooks:
    """Hooks that ``put`` registers on a module: the first who uses them puts them on, the last takes them off.

    What differs between threads has to be kept by thread; the hooks are the same for all.
    """

    def __init__(self, put: Callable[[nn.Module], Iterable[RemovableHandle]]) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._users: dict[nn.Module, tuple[int, tuple[RemovableHandle, ...]]] = {}

    @contextmanager
    def on(self, *modules: nn.Module) -> Iterator[None]:
        """The hooks are on these modules while this is open."""
        with self._lock:
            for module in modules:
                users, handles = self._users.get(module) or (0, tuple(self._put(module)))
                self._users[module] = users + 1, handles
        try:
            yield
        finally:
            with self._lock:
                for module in modules:
                    users, handles = self._users.pop(module)
                    if users > 1:
                        self._users[module] = users - 1, handles
                        continue
                    for handle in handles:
                        handle.remove()
