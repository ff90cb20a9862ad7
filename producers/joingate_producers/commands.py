"""The stream of an executor's commands: committed ones only, each once, in order, none of a gate that was replaced."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from joingate_producers.connection import Connection
from joingate_producers.wire import Row
from joingate_schemas.codec import Undecodable
from joingate_schemas.decisions import Command
from joingate_schemas.registry import RegistryUnavailable

log = logging.getLogger("joingate.producers")


@dataclass(frozen=True)
class Received:
    """A command, and where it lay in its topic.

    `first_heard` says that no other member of the group can have been given it before: it was written after this one
    took the partition over.
    """

    command: Command
    partition: int
    offset: int
    first_heard: bool = False


@dataclass
class _Progress:
    """How far one partition of the topic was handled. Commands end in any order, positions rise in order."""

    open: set[int] = field(default_factory=set)
    next_offset: int = 0

    @property
    def position(self) -> int:
        return min(self.open, default=self.next_offset)


class _Seen:
    """What was taken of one ledger partition: the gate writes its commands in the order of the ledger."""

    def __init__(self) -> None:
        self.epoch = 0
        self.seq = 0
        self._at_seq: set[tuple[str, str, int]] = set()  # one decision may command several operations

    def refusal(self, command: Command) -> str:
        """Empty if the command is new, which is then remembered; else why it is dropped."""
        if command.epoch < self.epoch:
            return f"its epoch {command.epoch} is below {self.epoch}, so a gate that was replaced wrote it"
        what = (command.kind, command.operation_id, command.attempt)
        if command.ledger_seq < self.seq or (command.ledger_seq == self.seq and what in self._at_seq):
            return "it was taken before"
        if command.ledger_seq > self.seq:
            self._at_seq.clear()
        self.epoch, self.seq = command.epoch, command.ledger_seq
        self._at_seq.add(what)
        return ""


class CommandStream:
    """The commands to the executor called `executor`, shared with all members of `group`.

    For plain use iterate: each command counts as handled when the next is asked for, and its position is committed
    then. For several at once use `poll` and `done`. A context manager. Only `poll` and `hold` must be called from one
    thread; `done` and `stop` may be called from any.
    """

    def __init__(self, connection: Connection, executor: str, group: str | None = None) -> None:
        """`group` is by default one for the executor under the connection's prefix."""
        topics = connection.topics
        self._codec = connection.codec
        self._lock = threading.Lock()
        self._progress: dict[int, _Progress] = {}
        self._committed: dict[int, int] = {}
        self._seen: dict[int, _Seen] = {}
        self._stopped = threading.Event()
        self.unreadable = 0  # records that were no command, and were passed over
        self._source = connection.wire.commands(
            topics.commands(executor), group or f"{topics.prefix}executor.{executor}", self._lost
        )

    def poll(self, timeout_s: float) -> list[Received]:
        """The next commands, or none after `timeout_s`. Also commits the positions of what is done."""
        self._commit()
        return [received for row in self._source.poll(timeout_s) if (received := self._taken(row)) is not None]

    def done(self, received: Received) -> None:
        """The command is handled: it need not come again."""
        with self._lock:
            progress = self._progress.get(received.partition)
            if progress is not None:  # else the partition is another member's by now
                progress.open.discard(received.offset)

    def is_ours(self, received: Received) -> bool:
        """Whether it came here and is not done, and its partition has not gone to another member meanwhile."""
        with self._lock:
            progress = self._progress.get(received.partition)
            return progress is not None and received.offset in progress.open

    def hold(self, held: bool) -> None:
        """While held, no command comes, yet the membership in the group stays alive by `poll`."""
        self._source.hold(held)

    def stop(self) -> None:
        """End the iteration."""
        self._stopped.set()

    def close(self) -> None:
        """Commit what is done, and leave the group."""
        self._commit()
        self._source.close()

    def __iter__(self) -> Iterator[Command]:
        while not self._stopped.is_set():
            for received in self.poll(0.25):
                if self._stopped.is_set():
                    return
                yield received.command
                self.done(received)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _taken(self, row: Row) -> Received | None:
        """The command in the row, if it is a new one; a row that is none counts as handled."""
        command = self._command(row)
        with self._lock:
            progress = self._progress.setdefault(row.partition, _Progress())
            progress.next_offset = row.offset + 1
            if command is None:
                return None
            progress.open.add(row.offset)
        taken_at = self._source.taken_at(row.partition)
        return Received(command, row.partition, row.offset, taken_at is not None and row.offset >= taken_at)

    def _command(self, row: Row) -> Command | None:
        while True:
            try:
                command = self._codec.decode(row.value)
                break
            except Undecodable as error:
                # Passed over, for the others' sake: a command that nobody hears is one that the gate's timers take up.
                self.unreadable += 1
                log.error("The command at %d/%d can't be read: %s.", row.partition, row.offset, error)
                return None
            except RegistryUnavailable as error:
                log.warning("The command at %d/%d waits for the registry: %s", row.partition, row.offset, error)
                if self._stopped.wait(1.0):
                    return None
        if not isinstance(command, Command):
            self.unreadable += 1
            log.error("The record at %d/%d is no command, but %s.", row.partition, row.offset, type(command).__name__)
            return None
        refusal = self._seen.setdefault(command.partition, _Seen()).refusal(command)
        if refusal:
            log.info("A %s of %s was dropped: %s.", command.kind, command.operation_id, refusal)
            return None
        return command

    def _commit(self) -> None:
        with self._lock:
            positions = {number: progress.position for number, progress in self._progress.items()}
            moved = {number: at for number, at in positions.items() if self._committed.get(number, -1) < at}
            self._committed.update(moved)
        if moved:
            self._source.commit(moved)

    def _lost(self, partitions: frozenset[int]) -> None:
        """The partitions go to another member, who begins at what we commit now."""
        self._commit()
        with self._lock:
            for number in partitions:
                self._progress.pop(number, None)
                self._committed.pop(number, None)
