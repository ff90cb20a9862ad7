"""What is open on one partition, read from its state: as much work as there is open, however long the ledger is."""

from collections.abc import Iterator
from typing import Protocol

from joingate_processors.law.state import Commitment, Operation, State


class OpenState(State, Protocol):
    """A state whose indexes can be walked; the gate's store and the one in memory both are."""

    def entries(self, index: str) -> list[tuple[str, str]]:
        """Every (owner, member) of the index of that name, sorted."""
        ...


def open_commitments(state: OpenState) -> Iterator[Commitment]:
    """Every commitment that is not discharged, whoever owns it."""
    for _, identity in state.entries("owned_commitments"):
        row = state.commitments.get(identity)
        if row is not None:
            yield row


def open_operations(state: OpenState) -> Iterator[Operation]:
    """Every operation that has not ended."""
    yield from _operations(state, "open_operations")


def unclaimed_operations(state: OpenState) -> Iterator[Operation]:
    """Every operation whose effect is there, and that nobody has taken up or undone yet."""
    yield from _operations(state, "unclaimed_operations")


def _operations(state: OpenState, index: str) -> Iterator[Operation]:
    for _, identity in state.entries(index):
        row = state.operations.get(identity)
        if row is not None:
            yield row
