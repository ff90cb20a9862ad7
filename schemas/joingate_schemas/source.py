"""The room for Python source that is made at run time: lines with their depth, fresh names, and the making itself.

Why source is made at all: a function written out for one schema reads a record in about two thirds of the time, and
writes one in a quarter of the time, that the general (and compiled) routines of the Avro library take; it also checks
what they let pass, such as a negative index.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """A function body in the making. `names` is what its code may refer to."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0

    def add(self, *lines: str) -> None:
        """Append `lines` at the present depth."""
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head`, and everything added within the context one level below it."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{stem}{self._count}"

    def keep(self, stem: str, thing: object) -> str:
        """The name under which the code finds `thing`."""
        name = f"{stem}{len(self.names)}"  # `names` may be shared with other sources, and only grows.
        self.names[name] = thing
        return name

    def made(self, name: str) -> Any:
        """Run the source and hand back the function called `name`. Its text never holds a schema's own names raw."""
        exec(compile("\n".join(self._lines), f"<made for {name}>", "exec"), self.names)
        return self.names[name]
