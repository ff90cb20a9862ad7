"""How each column of the table of a commitment's life is brought about, and how each of its rows is said."""

from collections.abc import Callable
from typing import get_args

from joingate_processors.law.lifecycle import COLUMNS
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.decisions import Decision
from joingate_schemas.ids import operation_id

from .driver import INTENT, Court, step
from .life_catalogue import DAY_MS, HOUR_MS, MINUTE_MS, lived

GOAL: c.Goal = {"goal_id": "g1", "acceptance": "it is so"}
CHANGED: c.Goal = {"goal_id": "g1", "acceptance": "it is otherwise"}
NOTHING_SAID = ("NOT_FOUND", "PENDING", "UNREACHABLE", "RESEND", "UNKNOWN")


def _court(action: str) -> Court:
    court = Court(lived())
    court.declare(goals=[GOAL])
    court.plan(step("s1", action, arguments={"name": "a"}, goal_id="g1"))
    court.dispatch("s1")
    return court


def _active(action: str = "make_hold") -> Court:
    court = _court(action)
    court.prepared("s1")
    court.commit("s1")
    court.observe_commitment("s1", "PRESENT", source_version=5)
    assert court.commitment("s1").status == "ACTIVE"
    return court


def _after(court: Court, *plays: Callable[[Court], object]) -> Court:
    for play in plays:
        play(court)
    return court


def _made() -> Court:
    return _after(_court("make_hold"), lambda x: x.prepared("s1"), lambda x: x.commit("s1"))


def _releasing() -> Court:
    return _after(_active(), lambda x: x.release("s1"))


def _transferred(court: Court) -> None:
    """Told as facts: how a transfer comes about is another table's matter."""
    row = court.commitment("s1")
    for before, after in (("ACTIVE", "TRANSFER_PENDING"), ("TRANSFER_PENDING", "TRANSFERRED")):
        court.tell(
            f.CommitmentChanged(
                commitment_id=row.commitment_id, intent_id=row.intent_id, before=before, after=after, cause="told",
                evidence=["ack:1"], operation_id=None, timer="NONE", deadline_at=None,
            )
        )  # fmt: skip


SITUATIONS: dict[str, Callable[[], Court]] = {
    "W": lambda: _court("make_message"),
    "P": lambda: _court("make_hold"),
    "M": _made,
    "A": _active,
    "U": lambda: _after(_active(), lambda x: x.advance(7 * DAY_MS)),
    "D": lambda: _after(
        _court("make_hold"), lambda x: x.prepared("s1"), lambda x: x.in_doubt("s1")
    ),
    "Q": lambda: _after(
        _active(), lambda x: x.reconcile("COMMITMENT", x.commitment_id("s1"))
    ),
    "R": lambda: _after(
        _releasing(), lambda x: x.prepared(x.release_of("s1")), lambda x: x.in_doubt(x.release_of("s1"))
    ),
    "L": _releasing,
    "B": lambda: _after(_active("make_reply"), lambda x: x.advance(HOUR_MS + 10 * MINUTE_MS)),
    "G": lambda: _after(_releasing(), lambda x: x.advance(HOUR_MS)),
    "O": lambda: _after(_active(), lambda x: x.transfer("s1")),
    "S": lambda: _after(_active(), lambda x: x.satisfied("s1")),
    "F": lambda: _after(
        _releasing(), lambda x: x.perform_release("s1"),
        lambda x: x.observe_commitment("s1", "ABSENT", source_version=6),
    ),
    "T": lambda: _after(_active(), _transferred),
}  # fmt: skip


def _key(court: Court) -> str:
    (one,) = [key for key, _ in court.state.rows("commitments")]
    return one


def _maker(court: Court) -> str:
    return court.commitment(_key(court)).creating_operation or ""


def _server(court: Court) -> str:
    """The operation that releases it, or that would."""
    serving = court.commitment(_key(court)).serving_operation
    return serving or operation_id(INTENT, "free_hold", _key(court), 1)


def _permitted(court: Court) -> str:
    server = _server(court)
    court.prepared(server, executor="cloud")
    return server


def _own_deadline(court: Court) -> Decision:
    row = court.commitment(_key(court))
    due = row.deadline_at if row.deadline_at is not None else court.now + 1
    claim = c.TimerFired(claim_id=court.claim_id(), intent_id=INTENT, timer=row.timer, subject_kind="COMMITMENT",
                         subject_id=row.commitment_id, due_at=due)  # fmt: skip
    court.now = max(court.now, due)
    return court.say(claim, "gate")


def _other_deadlines(court: Court) -> Decision:
    """Every timer that there is, at a time for which none of them was set; the last one's decision."""
    decisions = [
        court.say(
            c.TimerFired(claim_id=court.claim_id(), intent_id=INTENT, timer=timer, subject_kind="COMMITMENT",
                         subject_id=_key(court), due_at=court.now - 7), "gate",
        )
        for timer in get_args(f.Timer)
    ]  # fmt: skip
    assert len({(one.verdict, one.reason) for one in decisions}) == 1
    return decisions[-1]


Play = Callable[[Court], Decision]


def _override(to: str) -> Play:
    return lambda x: x.override("COMMITMENT", _key(x), to)


def _observe(finding: str, **given: object) -> Play:
    return lambda x: x.observe_commitment(_key(x), finding, **given)


def _nothing_said(court: Court) -> Decision:
    """Each finding that proves nothing; the last one's decision."""
    return [court.observe_commitment(_key(court), finding) for finding in NOTHING_SAID][-1]


PLAYS: dict[str, Play] = {
    "Release": lambda x: x.release(_key(x)),
    "MarkSatisfied, with evidence": lambda x: x.satisfied(_key(x), evidence=["receipt:1"]),
    "MarkSatisfied, without": lambda x: x.satisfied(_key(x), evidence=[]),
    "RequestReconciliation": lambda x: x.reconcile("COMMITMENT", _key(x)),
    "Transfer": lambda x: x.transfer(_key(x)),
    "Transfer, to its owner": lambda x: x.transfer(_key(x), f"intent:{INTENT}"),
    "AcceptTransfer": lambda x: x.accept(_key(x)),
    "Observe PRESENT, the target acting on it": _observe("PRESENT", owner_id="team:ops"),
    "AssignOwner": lambda x: x.assign(_key(x)),
    "Observe PRESENT": _observe("PRESENT"),
    "Observe PRESENT, newer": _observe("PRESENT", source_version=9),
    "Observe ABSENT": _observe("ABSENT"),
    "Observe ABSENT, with proof": _observe("ABSENT", proof="SECOND_LOOK"),
    "Observe REVOKED": _observe("REVOKED"),
    "Observe SEVERAL": _observe("SEVERAL"),
    "Observe, with nothing that proves anything": _nothing_said,
    "Observe, its condition": lambda x: x.observe_condition("migration:a", "PRESENT"),
    **{f"Override to {to}": _override(to) for to in get_args(f.CommitmentStatus)},
    "Override, without evidence": lambda x: x.override("COMMITMENT", _key(x), "RELEASED", evidence=[]),
    "Commit of what makes it": lambda x: x.commit(_maker(x), external_id="ext-1"),
    "Abort of what makes it, with proof": lambda x: x.executor_abort(_maker(x), proof="REFUSED"),
    "InDoubt of what makes it": lambda x: x.in_doubt(_maker(x)),
    "Commit of its release": lambda x: x.commit(_permitted(x), external_id="rel-1"),
    "Abort of its release, with proof": lambda x: x.executor_abort(_permitted(x), proof="REFUSED"),
    "InDoubt of its release": lambda x: x.in_doubt(_permitted(x)),
    "its own deadline passes": _own_deadline,
    "a deadline that it does not wait for": _other_deadlines,
    "CancelIntent": lambda x: x.cancel(),
    "DeclareIntent, its goal gone": lambda x: x.declare(2, goals=[]),
    "DeclareIntent, its goal changed": lambda x: x.declare(2, goals=[CHANGED]),
    "DeclareIntent, its goal untouched": lambda x: x.declare(2, goals=[GOAL]),
    "Plan without it": lambda x: x.plan(step("s9"), plan_id="p2", replaces="p1"),
    "Plan that names it": lambda x: x.plan(step("s9", commitments=[_key(x)]), plan_id="p2", replaces="p1"),
}  # fmt: skip


def played(letter: str, row: str) -> tuple[Court, Decision, str]:
    """The row said in the column's state: the court, the decision and the commitment's status after it."""
    court = SITUATIONS[letter]()
    assert court.commitment(_key(court)).status == COLUMNS[letter][0]
    decision = PLAYS[row](court)
    return court, decision, court.commitment(_key(court)).status
