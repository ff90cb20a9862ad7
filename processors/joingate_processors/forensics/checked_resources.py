"""The books of resources: what operations of the gate need and have, and what the arbiter has given to whom.

They share no code with either law. `ResourceBook` reads the gate's facts, `check_resources` the arbiter's ledger.
"""

import hashlib
from collections.abc import Iterable, Sequence

from joingate_processors.forensics.violations import Report, Violation
from joingate_schemas import facts as f
from joingate_schemas.arbitration import ArbiterDecision, Hold, Reserve
from joingate_schemas.codec import Codec, Undecodable
from joingate_schemas.decisions import Decision

RESOURCE_INVARIANTS: dict[str, str] = {
    "CONTIGUOUS": "Each record's seq is one more than that of the record before.",
    "CHAINED": "Each record carries the SHA-256 of the record before.",
    "EPOCH": "A writer's epoch never falls.",
    "TIME": "`decided_at` never goes back.",
    "ONCE": "A message of an operation about a resource is carried out once, whatever came of it.",
    "ALONE": "What is exclusive, or can be acted on once, is granted while nobody else has it.",
    "WITHIN": "A quantity is granted within the capacity that is declared, beside all that others have.",
    "QUARANTINED": "Nothing is granted while another operation keeps the resource in quarantine.",
    "LEASE": "A lease that is over takes nothing away.",
    "GRANT": "Only a grant gives an operation more of a resource, on the terms that its message asked for.",
    "NAMED": "A denial changes nobody's holding, and names somebody who has the resource.",
}
"""What is checked of an arbiter's ledger: the name of each invariant, and the sentence that it is."""

_TERMS = (
    "resource_ref",
    "operation_id",
    "generation",
    "intent_id",
    "mode",
    "quantity",
    "capacity",
    "keeps",
    "lease_ms",
)


class ResourceBook:
    """What each operation needs, and what it was granted, as the gate's facts tell."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._needs: dict[str, set[str]] = {}
        self._granted: dict[str, set[str]] = {}

    def changed(self, fact: f.ResourceChanged, decision: Decision) -> None:
        """An operation needs a resource, or was granted it by the arbiter."""
        if fact.standing == "WANTED":
            self._needs.setdefault(fact.operation_id, set()).add(fact.resource_ref)
        elif fact.standing == "HELD":
            if decision.claim_type != "ResourceGranted":
                self._report("RESOURCES", (fact.operation_id, fact.resource_ref),
                             f"a {decision.claim_type} gives it the resource")  # fmt: skip
            self._granted.setdefault(fact.operation_id, set()).add(fact.resource_ref)

    def acts(self, operation_id: str) -> None:
        """The operation may go on, or act: it must have been granted all that it needs."""
        for lacking in sorted(self._needs.get(operation_id, set()) - self._granted.get(operation_id, set())):
            self._report("RESOURCES", (operation_id, lacking), f"it may go on without {lacking}")


def check_resources(
    decisions: Iterable[ArbiterDecision], raw: Sequence[bytes] | None = None, codec: Codec | None = None
) -> list[Violation]:
    """Every breach in an arbiter's ledger, in order; empty if it keeps all invariants.

    `raw` are the records' bytes, for the chain; `codec` reads the messages in them, for the terms of what was granted.
    """
    book = ArbiterBook(codec)
    for place, decision in enumerate(decisions):
        book.read(decision, None if raw is None else raw[place])
    return book.violations


class ArbiterBook:
    """Reads one partition of an arbiter's ledger, record by record; `violations` grows as it goes."""

    def __init__(self, codec: Codec | None = None) -> None:
        self.violations: list[Violation] = []
        self._codec = codec
        self._holds: dict[str, dict[str, Hold]] = {}
        self._done: set[tuple[str, str, int]] = set()
        self._last: ArbiterDecision | None = None
        self._digest: bytes | None = None
        self._seq = 0

    def read(self, decision: ArbiterDecision, raw: bytes | None) -> None:
        """Hold one record against all that came before."""
        self._seq = decision.seq
        self._read_place(decision, raw)
        what = (decision.resource_ref, decision.operation_id)
        held = self._holds.setdefault(decision.resource_ref, {})
        others = [hold for operation, hold in held.items() if operation != decision.operation_id]
        before = held.get(decision.operation_id)
        if decision.message_type not in ("", "LeasePassed") and decision.verdict in ("GRANTED", "DENIED", "DONE"):
            key = (*what, decision.n)
            if key in self._done:
                self._report("ONCE", decision, f"message {decision.n} was carried out before")
            self._done.add(key)
        if decision.verdict == "GRANTED" and decision.reason == "OK" and decision.hold is not None:
            self._read_grant(decision, decision.hold, others)
        elif decision.hold is not None and not _may_stand(decision, decision.hold, before):
            self._report("GRANT", decision, f"a {decision.message_type} gives it {decision.hold['quantity']}")
        if decision.verdict == "DENIED":
            if decision.hold != before:
                self._report("NAMED", decision, "a denial changed what the operation has")
            if decision.holder and decision.holder not in {hold["operation_id"] for hold in others}:
                self._report("NAMED", decision, f"{decision.holder} is named, and does not have it")
        if decision.message_type == "LeasePassed" and (decision.hold is None) != (before is None):
            self._report("LEASE", decision, "it took the resource away")
        if decision.hold is not None:
            held[decision.operation_id] = decision.hold
        elif decision.message_type:
            held.pop(decision.operation_id, None)

    def _read_grant(self, decision: ArbiterDecision, hold: Hold, others: list[Hold]) -> None:
        if self._codec is not None:
            self._read_terms(decision, hold, self._codec)
        if any(one["quarantined"] for one in others):
            self._report("QUARANTINED", decision, "another operation keeps it in quarantine")
        shared = [one for one in others if one["quantity"]]
        if shared and (hold["mode"] != "CAPACITY" or any(one["mode"] != "CAPACITY" for one in shared)):
            self._report("ALONE", decision, f"{shared[0]['operation_id']} has it")
        taken = sum(one["quantity"] for one in others) + hold["quantity"]
        if hold["mode"] == "CAPACITY" and hold["capacity"] is not None and taken > hold["capacity"]:
            self._report("WITHIN", decision, f"{taken} of {hold['capacity']} are held with it")

    def _read_terms(self, decision: ArbiterDecision, hold: Hold, codec: Codec) -> None:
        try:
            message = codec.decode(decision.message)
        except Undecodable as error:
            self._report("GRANT", decision, f"its message can't be read: {error}")
            return
        if not isinstance(message, Reserve):
            self._report("GRANT", decision, f"its message is a {type(message).__name__}")
            return
        asked = {name: getattr(message, name) for name in _TERMS}
        given = {name: dict(hold).get(name) for name in _TERMS}
        if asked != given or (message.n, message.partition) != (decision.n, decision.gate_partition):
            differ = ", ".join(name for name in _TERMS if asked[name] != given[name]) or "n or partition"
            self._report("GRANT", decision, f"it differs from what its message asks for in {differ}")

    def _read_place(self, decision: ArbiterDecision, raw: bytes | None) -> None:
        last = self._last
        if decision.seq != (last.seq if last else 0) + 1:
            self._report("CONTIGUOUS", decision, f"seq {decision.seq} follows {last.seq if last else 0}")
        if last is not None and decision.epoch < last.epoch:
            self._report("EPOCH", decision, f"epoch {decision.epoch} came after {last.epoch}")
        if last is not None and decision.decided_at < last.decided_at:
            self._report("TIME", decision, f"it was decided at {decision.decided_at}, before {last.decided_at}")
        if raw is not None and self._digest is not None and decision.previous != self._digest:
            self._report("CHAINED", decision, "it does not carry the hash of the record before")
        self._last, self._digest = decision, None if raw is None else hashlib.sha256(raw).digest()

    def _report(self, invariant: str, decision: ArbiterDecision, sentence: str) -> None:
        ids = (decision.resource_ref or f"seq {decision.seq}", decision.operation_id)
        self.violations.append(Violation(self._seq, invariant, ids, sentence))


def _may_stand(decision: ArbiterDecision, hold: Hold, before: Hold | None) -> bool:
    """Whether it has no more than before; what was acted on without being held is spent all the same."""
    spent = decision.message_type == "Free" and hold["status"] == "SPENT"
    return spent or hold["quantity"] <= (before["quantity"] if before else 0)
