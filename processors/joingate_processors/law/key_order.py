"""The order of a dictionary's keys, found when somebody first asks: whoever only gets and puts pays nothing for it."""

from bisect import bisect_left, bisect_right, insort
from itertools import islice
from typing import Any


class KeyOrder:
    """The keys of one dictionary, sorted as far as they were asked for. It must hear of every key that goes."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: list[str] = []

    def under(self, rows: dict[str, Any], prefix: str, after: str, limit: int | None = None) -> list[str]:
        """Up to `limit` of the keys of `rows` that begin with `prefix`, above `after`, sorted."""
        self._catch_up(rows)
        keys = self._keys
        start = max(bisect_left(keys, prefix), bisect_right(keys, after))
        end, last = start, len(keys) if limit is None else min(len(keys), start + limit)
        while end < last and keys[end].startswith(prefix):
            end += 1
        return keys[start:end]

    def forget(self, key: str) -> None:
        """The key is no longer in the dictionary."""
        place = bisect_left(self._keys, key)
        if self._keys[place : place + 1] == [key]:
            del self._keys[place]

    def _catch_up(self, rows: dict[str, Any]) -> None:
        """Take in what is new: a dictionary keeps its keys in the order in which they came, so that is its tail."""
        new = len(rows) - len(self._keys)
        if not new:
            return
        fresh = list(islice(reversed(rows), new))
        if new > len(self._keys) // 8:
            self._keys = sorted([*self._keys, *fresh])
        else:
            for key in fresh:
                insort(self._keys, key)
