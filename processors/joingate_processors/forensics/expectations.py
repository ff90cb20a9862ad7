"""The room that holds what was expected against what came: any part may be left out, and a difference is readable.

An object expected is met by one that has at least its members. A list expected is met when each of its items is met
by another item of the list that came, in any order; an empty list expects that there is none.
"""

import json
from collections.abc import Sequence

from joingate_processors.forensics.shapes import FieldFault, parse_time

_SHOWN_MAX = 200


def difference(expected: object, actual: object, at: str = "") -> list[str]:
    """What is expected and did not come, one line each; empty if all did. `at` is the place, for the lines."""
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return [f"{at or 'it'}: expected an object, came {_shown(actual)}"]
        lines: list[str] = []
        for key, value in expected.items():
            place = f"{at}.{key}" if at else key
            if key not in actual:
                lines.append(f"{place}: expected {_shown(value)}, and there is no such member")
            else:
                lines += difference(value, actual[key], place)
        return lines
    if isinstance(expected, list):
        if not isinstance(actual, list):
            return [f"{at}: expected a list, came {_shown(actual)}"]
        return _list_difference(expected, actual, at)
    return [] if _same(expected, actual) else [f"{at}: expected {_shown(expected)}, came {_shown(actual)}"]


def _same(expected: object, actual: object) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, str) and isinstance(actual, int):
        # Times come as milliseconds, and may be expected as people write them.
        try:
            return parse_time(expected, "") == actual
        except FieldFault:
            return False
    return expected == actual


def _list_difference(expected: list[object], actual: list[object], at: str) -> list[str]:
    if not expected:
        return [f"{at}: expected none, came {_shown(item)}" for item in actual]
    fits = [[not difference(want, item) for item in actual] for want in expected]
    return [
        _nearest(want, actual, f"{at}[{place}]")
        for place, want in enumerate(expected)
        if place not in _matching(fits)
    ]  # fmt: skip


def _matching(fits: list[list[bool]]) -> dict[int, int]:
    """As many expected items as can be met, each with the item that meets it and no other (augmenting paths)."""
    taken: dict[int, int] = {}  # actual -> expected

    def place(want: int, tried: set[int]) -> bool:
        for item, fit in enumerate(fits[want]):
            if fit and item not in tried:
                tried.add(item)
                if item not in taken or place(taken[item], tried):
                    taken[item] = want
                    return True
        return False

    for want in range(len(fits)):
        place(want, set())
    return {want: item for item, want in taken.items()}


def _nearest(want: object, actual: Sequence[object], at: str) -> str:
    """The line about an item that nothing meets, with what comes closest to it."""
    line = f"{at}: expected {_shown(want)}, and nothing that came meets it"
    close = [(difference(want, item), item) for item in actual if _kind(item) == _kind(want)]
    if not close:
        names = sorted({_kind(item) for item in actual})
        return f"{line}; there came " + (", ".join(names) if names and all(names) else f"{len(actual)} items")
    lines, item = min(close, key=lambda pair: len(pair[0]))
    return f"{line}; closest is {_shown(item)}" + "".join(f"\n    {one.removeprefix('.')}" for one in lines)


def _kind(item: object) -> str:
    return str(item.get("type", "")) if isinstance(item, dict) else ""


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
