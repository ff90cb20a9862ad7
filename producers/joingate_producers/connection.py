"""A connection: what all clients of one process share: sender, outbox, the reader of verdicts, and the way out.

How a claim leaves, and what each step survives: 1. it is checked and encoded; 2. where it must not be lost, it is put
into the outbox (a crash from here on: sent at the next start); 3. a place for its verdict is made; 4. it is handed to
the sender, which waits until the ledger's end is known (so no verdict is missed); 5. on the broker's confirmation it
leaves the outbox (a crash before: sent again, same bytes, answered REPLAYED).
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from joingate_producers.checking import checked
from joingate_producers.errors import (
    ConnectionClosed,
    InvalidClaim,
    JoinGateError,
    OutboxBroken,
    OutboxInUse,
    Unreachable,
    Unsent,
)
from joingate_producers.kafka import KafkaWire
from joingate_producers.outbox import Outbox, open_slot, slot_paths
from joingate_producers.sender import Parcel, Sender
from joingate_producers.settings import Settings, settings_from
from joingate_producers.verdicts import Answer, PendingVerdict, VerdictReader
from joingate_producers.wire import ANY_PARTITION, Wire
from joingate_schemas.claims import AnyClaim
from joingate_schemas.codec import CLAIM_BYTES_MAX, Codec, Unencodable
from joingate_schemas.registry import RegistryUnavailable
from joingate_schemas.signing import KeyFileError, Signer
from joingate_schemas.topics import Topics

log = logging.getLogger("joingate.producers")


def _signer(settings: Settings) -> Signer | None:
    """The key that the settings name, if they name one. Raises JoinGateError."""
    if settings.key_file is None:
        return None
    try:
        return Signer.from_file(settings.key_file)
    except KeyFileError as error:
        raise JoinGateError(str(error)) from error
    except ModuleNotFoundError as error:
        raise JoinGateError(
            'Signing needs the package cryptography: pip install "joingate[signing]", or leave key_file out.'
        ) from error


class OutboxChoice(Enum):
    """STANDARD: a file in the settings' `state_dir`, made when a claim first needs it."""

    STANDARD = "standard"


class Connection:
    """One process's connection to a gate's topics; give it to `Planner`, `Executor` and the others.

    A context manager, sync and async: leaving it waits up to `close_timeout_s` for the broker's confirmations, and
    raises Unsent if a claim may be unwritten and no outbox keeps it. Settings not given come from the environment
    (see `settings.ENVIRONMENT`), then from the defaults. Nothing waits for the broker before a verdict is asked for.
    """

    def __init__(
        self,
        *,
        outbox: Path | str | OutboxChoice | None = OutboxChoice.STANDARD,
        wire: Wire | None = None,
        signer: Signer | None = None,
        **settings: Any,
    ) -> None:
        """`outbox` is a file's path, STANDARD, or None for none. `wire` replaces the broker, as `memory` does.

        `signer` signs every claim, else the key in the settings' `key_file` does, if there is one.

        Claims that an earlier process left in the outbox are sent at once. Raises JoinGateError for a setting that
        does not fit, OutboxInUse and OutboxBroken.
        """
        self.settings: Settings = settings_from(settings)
        self.topics = Topics(self.settings.prefix)
        try:
            self.codec = Codec(self.settings.registry_url)
        except ValueError as error:
            raise Unreachable(str(error)) from error
        self._signer = _signer(self.settings) if signer is None else signer
        self.wire: Wire = KafkaWire(self.settings) if wire is None else wire
        self._lock = threading.Lock()
        self._closed = False
        self._outbox_choice = outbox
        self._outbox = self._found_outbox()
        try:
            self._sender = Sender(self.wire.outlet, self.settings.in_flight_max)
        except BaseException:
            # Nobody could close what was never made, and the outbox would stay locked.
            if self._outbox is not None:
                self._outbox.close()
            raise
        self._reader = VerdictReader(
            make_tail=lambda: self.wire.tail(self.topics.ledger),
            codec=self.codec,
            ready=self._sender.release,
            sender_problem=lambda: self._sender.problem,
            request_timeout_s=self.settings.request_timeout_s,
        )
        if not self.settings.verdicts:
            self._sender.release()
        self._send_what_was_kept()

    # --- the outbox --------------------------------------------------------------------------------------------------

    @property
    def _slot_name(self) -> str:
        # One file for each client and set of topics: what was meant for one gate must not reach another.
        where = f"{self.settings.prefix}@{self.settings.bootstrap_servers}"
        return "".join(one if one.isalnum() or one in ".-" else "_" for one in f"{self.settings.name}~{where}")

    def _found_outbox(self) -> Outbox | None:
        """The outbox, where it exists already or was asked for by path."""
        if self._outbox_choice is None:
            return None
        if isinstance(self._outbox_choice, OutboxChoice):
            if not slot_paths(self.settings.state_dir, self._slot_name):
                return None
            return self._open_slot()
        return Outbox(Path(self._outbox_choice), self.settings.outbox_claims_max)

    def _open_slot(self) -> Outbox:
        return open_slot(self.settings.state_dir, self._slot_name, self.settings.outbox_claims_max)

    def outbox(self) -> Outbox | None:
        """The outbox, made now if it does not exist; None if this connection has none."""
        with self._lock:
            if self._outbox is None and self._outbox_choice is OutboxChoice.STANDARD:
                self._outbox = self._open_slot()
            return self._outbox

    def _send_what_was_kept(self) -> None:
        kept = self._outbox.kept() if self._outbox is not None else []
        for claim in kept:
            answer = Answer(claim.claim_id)  # nobody waits for it; the verdict is in the ledger
            self._send(claim.claim_id, claim.topic, claim.partition, claim.key, claim.value, answer, claim.number)
        if kept:
            log.info("%d claim(s) of an earlier process are sent from the outbox.", len(kept))

    # --- sending -----------------------------------------------------------------------------------------------------

    def submit(
        self,
        topic: str,
        claim: AnyClaim,
        *,
        durable: bool,
        partition: int = ANY_PARTITION,
        ends: tuple[str, int] | None = None,
    ) -> PendingVerdict:
        """Send a claim to `topic` (a full name), keyed by its intent; for the clients of the roles.

        `durable`: keep it in the outbox, if there is one, until the broker has confirmed it. `ends` names the begun
        effect (operation id, attempt) that it reports. Raises InvalidClaim, OutboxFull, OutboxBroken, Unreachable
        (the schema registry), and ConnectionClosed; then nothing was sent.
        """
        checked(claim)
        claim = self._signed(claim)
        return self._submit(topic, claim, self._encoded(claim), durable, partition, ends)

    def repeat(self, topic: str, pending: PendingVerdict, *, durable: bool) -> PendingVerdict:
        """Send the same claim again, byte for byte: decided once, answered as often as it is sent."""
        return self._submit(topic, pending.claim, pending.value, durable, pending.partition, None)

    def _signed(self, claim: AnyClaim) -> AnyClaim:
        """The claim with this connection's signature, if it has a key and nobody has signed it; so once for ever."""
        return claim if self._signer is None or claim.signature is not None else self._signer.sign(claim)

    def can_encode(self, claim: AnyClaim) -> None:
        """Nothing, if such a claim can be encoded now. Raises Unreachable if the schema registry can't be asked."""
        self._encoded(claim)

    def _encoded(self, claim: AnyClaim) -> bytes:
        kind = type(claim).__name__
        try:
            value = self.codec.encode(claim)
        except Unencodable as error:
            raise InvalidClaim(kind, "the record", f"has no place in its schema ({error})") from error
        except RegistryUnavailable as error:
            raise Unreachable(str(error)) from error
        if len(value) > CLAIM_BYTES_MAX:
            raise InvalidClaim(
                kind, "the record", f"takes {len(value)} bytes and may take {CLAIM_BYTES_MAX}: refer to what is outside"
            )
        return value

    def _submit(
        self,
        topic: str,
        claim: AnyClaim,
        value: bytes,
        durable: bool,
        partition: int,
        ends: tuple[str, int] | None,
    ) -> PendingVerdict:
        outbox = self.outbox() if durable else None
        self._sender.check_room(outbox is not None)
        key = claim.intent_id.encode()
        number = outbox.put(claim.claim_id, topic, partition, key, value, ends) if outbox is not None else None
        answer = self._reader.expect(claim.intent_id, claim.claim_id, partition)
        if not self.settings.verdicts:
            answer.fail(JoinGateError("This connection was told not to read verdicts (verdicts=False): open another."))
        try:
            self._send(claim.claim_id, topic, partition, key, value, answer, number)
        except BaseException:
            # The caller is told that it was not sent, so it must not go out at the next start; a report must.
            if outbox is not None and number is not None and ends is None:
                outbox.delivered(number)
            raise
        return PendingVerdict(claim, value, partition, answer, self._reader, self.settings.verdict_timeout_s)

    def _send(
        self, claim_id: str, topic: str, partition: int, key: bytes, value: bytes, answer: Answer, number: int | None
    ) -> None:
        if self.settings.verdicts:
            self._reader.start()
        self._sender.send(
            Parcel(
                claim_id=claim_id,
                topic=topic,
                partition=partition,
                key=key,
                value=value,
                written=self._written(answer, number),
                refused=lambda problem: answer.refuse(problem, kept=number is not None),
                kept=number is not None,
            )
        )

    def _written(self, answer: Answer, number: int | None) -> Callable[[], None]:
        outbox = self._outbox

        def written() -> None:
            answer.delivered = True
            if outbox is None or number is None:
                return
            try:
                outbox.delivered(number)
            except (OutboxBroken, OutboxInUse):
                # It stays in the outbox and is sent once more at the next start, which the gate answers REPLAYED.
                log.exception("Claim %s was written, and could not be struck from the outbox.", answer.claim_id)

        return written

    # --- ending ------------------------------------------------------------------------------------------------------

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until the broker has confirmed all claims.

        Raises Unsent at the deadline (`close_timeout_s` by default) about claims that no outbox keeps.
        """
        limit_s = self.settings.close_timeout_s if timeout_s is None else timeout_s
        left = self._sender.flush(limit_s)
        lost = [parcel.claim_id for parcel in left if not parcel.kept]
        if lost:
            raise Unsent(lost, self._reader.problem)
        if left:
            log.warning("%d claim(s) stay in the outbox and are sent at the next start.", len(left))

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, then let go of everything, also when Unsent is raised. May be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            self.flush(timeout_s)
        finally:
            self._sender.close()
            self._reader.close(ConnectionClosed("The connection was closed before the verdict came: repeat the claim."))
            if self._outbox is not None:
                self._outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)
