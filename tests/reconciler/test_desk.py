"""The desk and the asker over a dictionary: what is taken in, what is dropped, and what a crash in between leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from joingate_processors.reconciler.answers import (
    Answer,
    Answered,
    AtWork,
    Downstream,
    Exists,
    Found,
    Gone,
    LookUp,
    NotFound,
    PartlyThere,
    Refused,
    ResendDue,
    ResourceView,
    Statement,
    StatementView,
    Unreachable,
)
from joingate_processors.reconciler.asking import Asker
from joingate_processors.reconciler.desk import Desk
from joingate_processors.reconciler.rows import Admission, Guard, decode_guard, decode_row, encode_guard, encode_row
from joingate_processors.reconciler.rules import Missed, Policy, Row
from joingate_processors.reconciler.schedule import Schedule
from joingate_processors.reconciler.status import Board
from joingate_schemas.claims import Observe
from joingate_schemas.decisions import InDoubtRequest

POLICY = Policy(clock_margin_ms=0)
NOW = 2_000_000
Make = Callable[..., InDoubtRequest]


class DictRows(dict[bytes, bytes]):
    """The table in memory."""

    def put(self, key: bytes, value: bytes) -> None:
        self[key] = value

    def delete(self, key: bytes) -> None:
        self.pop(key, None)


class Bank:
    """A downstream that answers what it was told to, and holds its answers back until it may speak."""

    def __init__(self, answer: LookUp | Exception, speak: asyncio.Event | None = None) -> None:
        self.answer, self.speak, self.asked = answer, speak, list[str]()

    async def look_up(self, request: InDoubtRequest) -> LookUp:
        self.asked.append(request.subject_id)
        if self.speak is not None:
            await self.speak.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def observe_resource(self, request: InDoubtRequest) -> ResourceView:
        return Exists()

    async def read_statement(self, request: InDoubtRequest) -> StatementView:
        return Statement(closed=False, external_ids=())

    async def close(self) -> None:
        """Nothing is open."""


class Office:
    """Desk and asker wired as the app wires them; answers come straight back."""

    def __init__(self, downstreams: dict[str, Downstream] | None = None, rows: DictRows | None = None) -> None:
        self.rows = DictRows() if rows is None else rows
        self.schedule, self.board, self.claims = Schedule(), Board(), list[Observe]()
        self.now = NOW
        self.desk = Desk(self.rows, self.schedule, self.board, POLICY, lambda: self.now)
        self.deliver: Callable[[Row, Answered], Awaitable[None]] = self._deliver
        self.asker = Asker(
            schedule=self.schedule,
            read=self.desk.row,
            deliver=lambda row, answered: self.deliver(row, answered),
            downstreams=downstreams or {},
            board=self.board,
            policy=POLICY,
            clock=lambda: self.now,
        )

    async def _deliver(self, row: Row, answered: Answered) -> None:
        await self.desk.take_answer(Answered.decode(answered.encode()), self.send)

    async def send(self, claim: Observe) -> None:
        self.claims.append(claim)

    async def ask(self) -> None:
        self.asker.look()
        await self.asker.settle()


def found(request: InDoubtRequest, ask: int = 1) -> Answered:
    return Answered(
        subject_id=request.subject_id,
        partition=request.partition,
        ledger_seq=request.ledger_seq,
        ask=ask,
        asked_at=NOW,
        answer=Found(external_ids=("bank-1",)),
    )


# --- what is taken in ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("details", "admission"),
    [
        ({"ledger_seq": 8}, Admission.NEW),
        ({"ledger_seq": 7, "subject_id": "op-2"}, Admission.NEW),  # one decision can ask about two subjects
        ({"ledger_seq": 7}, Admission.REPEATED),
        ({"ledger_seq": 6, "subject_id": "op-2"}, Admission.REPEATED),
        ({"ledger_seq": 8, "epoch": 4}, Admission.NEW),
        ({"ledger_seq": 8, "epoch": 2}, Admission.REFUSED),
    ],
)
def test_each_request_is_taken_in_once_and_none_of_a_replaced_writer(
    make_request: Make, details: dict[str, int], admission: Admission
) -> None:
    guard = Guard().after(make_request(ledger_seq=7, epoch=3))
    assert guard.admits(make_request(**{"epoch": 3, **details})) is admission


def test_a_request_of_a_replaced_writer_changes_nothing_and_is_counted(make_request: Make) -> None:
    office = Office()
    office.desk.take_request(make_request(ledger_seq=7, epoch=3), 0)
    office.desk.take_request(make_request(kind="RESOLVED", ledger_seq=8, epoch=2), 0)
    assert office.desk.row("op-1") is not None
    assert office.board.stale_epochs == 1


def test_a_request_of_an_unknown_kind_concludes_nothing(make_request: Make) -> None:
    """A later release's word must not be read as "resolved"."""
    office = Office()
    office.desk.take_request(make_request(ledger_seq=1), 0)
    office.desk.take_request(make_request(kind="UNKNOWN", ledger_seq=2), 0)
    assert office.desk.row("op-1") is not None
    assert office.board.unknown_kinds == 1


@pytest.mark.parametrize("kind", ["RESOLVED", "HUMAN"])
def test_a_resolved_subject_leaves_the_table_and_the_schedule(make_request: Make, kind: str) -> None:
    office = Office()
    office.desk.take_request(make_request(ledger_seq=1), 0)
    office.desk.take_request(make_request(kind=kind, ledger_seq=2), 0)
    assert office.desk.row("op-1") is None
    assert (len(office.schedule), office.board.open) == (0, set())


def test_a_newer_request_replaces_the_one_before_and_its_answers(make_request: Make) -> None:
    """An answer to the earlier question says nothing about the later attempt."""
    office = Office()
    office.desk.take_request(make_request(ledger_seq=1), 0)
    office.desk.take_request(make_request(ledger_seq=2, attempt=2), 0)
    asyncio.run(office.desk.take_answer(found(make_request(ledger_seq=1)), office.send))
    assert office.claims == []
    asyncio.run(office.desk.take_answer(found(make_request(ledger_seq=2)), office.send))
    assert [claim.finding for claim in office.claims] == ["PRESENT"]


# --- crashes ---------------------------------------------------------------------------------------------------------


def test_a_crash_between_sending_and_recording_says_the_same_again(make_request: Make) -> None:
    """C19: the answer comes again, and so does the claim, under the same id; the row is written once."""
    office = Office()
    office.desk.take_request(make_request(), 0)
    before = DictRows(office.rows)
    asyncio.run(office.desk.take_answer(found(make_request()), office.send))
    office.rows.clear()
    office.rows.update(before)
    asyncio.run(office.desk.take_answer(found(make_request()), office.send))
    first, second = office.claims
    assert first == second


def test_an_answer_that_comes_twice_is_said_once(make_request: Make) -> None:
    office = Office()
    office.desk.take_request(make_request(), 0)
    for _ in range(2):
        asyncio.run(office.desk.take_answer(found(make_request()), office.send))
    assert len(office.claims) == 1


def test_a_claim_that_is_not_delivered_leaves_the_row_as_it_was(make_request: Make) -> None:
    office = Office()
    office.desk.take_request(make_request(), 0)
    before = DictRows(office.rows)

    async def fail(claim: Observe) -> None:
        raise ConnectionError("the broker is away")

    with pytest.raises(ConnectionError):
        asyncio.run(office.desk.take_answer(found(make_request()), fail))
    assert office.rows == before


def test_a_restart_asks_what_was_open_when_it_was_due(make_request: Make) -> None:
    office = Office()
    office.desk.take_request(make_request(ledger_seq=1), 0)
    office.desk.take_request(make_request(ledger_seq=2, subject_id="op-2", capabilities=["NONE"]), 0)
    again = Office(rows=office.rows)
    again.desk.recall()
    assert again.schedule.next_at() == office.schedule.next_at() == 1_010_000
    assert again.board.open == {"op-1", "op-2"}


@pytest.mark.parametrize(
    "answer",
    [
        Found(external_ids=("a", "b"), key="k", source_version=1, evidence=("e",)),
        NotFound(source_time=5),
        Refused(),
        AtWork(),
        Exists(),
        Gone(),
        PartlyThere(),
        Statement(closed=True, external_ids=("a",)),
        Unreachable(detail="down"),
        ResendDue(),
    ],
)
def test_every_answer_survives_its_topic(make_request: Make, answer: Answer) -> None:
    answered = replace(found(make_request()), answer=answer)
    assert Answered.decode(answered.encode()) == answered


def test_rows_and_guards_survive_the_table(make_request: Make) -> None:
    row = Row(
        request=make_request(),
        received_on=3,
        not_before=4,
        asks=5,
        said="PENDING",
        missed=Missed(asked_at=6, source_version=None, evidence=("e",)),
    )
    assert decode_row(encode_row(row)) == row
    guard = Guard().after(make_request())
    assert decode_guard(encode_guard(guard)) == guard


# --- asking ----------------------------------------------------------------------------------------------------------


def test_what_is_due_is_asked_and_its_answer_said(make_request: Make) -> None:
    bank = Bank(Found(external_ids=("bank-1",)))
    office = Office({"bank": bank})
    office.desk.take_request(make_request(), 0)
    asyncio.run(office.ask())
    assert [(claim.finding, claim.external_ids) for claim in office.claims] == [("PRESENT", ["bank-1"])]


def test_what_is_not_due_is_not_asked(make_request: Make) -> None:
    bank = Bank(Found(external_ids=("bank-1",)))
    office = Office({"bank": bank})
    office.desk.take_request(make_request(askable_from=NOW + 1), 0)
    asyncio.run(office.ask())
    assert bank.asked == []
    office.now += 1
    asyncio.run(office.ask())
    assert bank.asked == ["op-1"]


def test_a_resend_needs_no_address(make_request: Make) -> None:
    """The gate is asked, not the downstream."""
    office = Office()
    office.desk.take_request(make_request(capabilities=["IDEMPOTENT_KEY"]), 0)
    asyncio.run(office.ask())
    assert [claim.finding for claim in office.claims] == ["RESEND"]


def test_a_resend_that_the_gate_refuses_is_followed_by_a_look_at_once(make_request: Make) -> None:
    """The gate asks anew, and says that no resend is left: nobody waits for one to be of use."""
    bank = Bank(Found(external_ids=("bank-1",)))
    office = Office({"bank": bank})
    office.desk.take_request(make_request(capabilities=["IDEMPOTENT_KEY", "LOOKUP"], ledger_seq=1), 0)
    asyncio.run(office.ask())
    asyncio.run(office.ask())
    assert ([claim.finding for claim in office.claims], bank.asked) == (["RESEND"], [])
    told_anew = make_request(capabilities=["IDEMPOTENT_KEY", "LOOKUP"], ledger_seq=2, fresh=False)
    office.desk.take_request(told_anew, 0)
    asyncio.run(office.ask())
    assert [claim.finding for claim in office.claims] == ["RESEND", "PRESENT"]


def test_a_downstream_without_an_address_is_told_of_once(make_request: Make, caplog: pytest.LogCaptureFixture) -> None:
    office = Office()
    for n in (1, 2):
        office.desk.take_request(make_request(ledger_seq=n, subject_id=f"op-{n}", downstream="elsewhere"), 0)
    asyncio.run(office.ask())
    assert office.board.unconfigured == {"elsewhere"}
    assert len([record for record in caplog.records if "elsewhere" in record.getMessage()]) == 1
    assert office.claims == []


def test_a_slow_downstream_delays_no_other(make_request: Make) -> None:
    """More questions than the slow one is asked at once, and the quick one is answered meanwhile."""

    async def scene() -> list[str]:
        speak = asyncio.Event()
        office = Office({"slow": Bank(Found(external_ids=("s",)), speak), "bank": Bank(Found(external_ids=("b",)))})
        for n in range(1, 9):
            office.desk.take_request(make_request(ledger_seq=n, subject_id=f"slow-{n}", downstream="slow"), 0)
        office.desk.take_request(make_request(ledger_seq=9, subject_id="quick"), 0)
        office.asker.look()
        while not office.claims:
            await asyncio.sleep(0)
        first = [claim.subject_id for claim in office.claims]
        speak.set()
        await office.asker.settle()
        assert len(office.claims) == 9
        return first

    assert asyncio.run(asyncio.wait_for(scene(), 10)) == ["quick"]


def test_an_adapter_that_fails_is_no_answer(make_request: Make, caplog: pytest.LogCaptureFixture) -> None:
    office = Office({"bank": Bank(RuntimeError("a fault of its own"))})
    office.desk.take_request(make_request(), 0)
    asyncio.run(office.ask())
    row = office.desk.row("op-1")
    assert row is not None
    assert (row.asks, row.missed, office.claims) == (1, None, [])
    assert office.board.unreachable == {"bank"}


def test_an_answer_that_cannot_be_delivered_is_asked_for_again(
    make_request: Make, caplog: pytest.LogCaptureFixture
) -> None:
    bank = Bank(Found(external_ids=("bank-1",)))
    office = Office({"bank": bank})
    office.desk.take_request(make_request(), 0)
    usual = office.deliver

    async def fail(row: Row, answered: Answered) -> None:
        raise ConnectionError("the broker is away")

    office.deliver = fail
    asyncio.run(office.ask())
    office.deliver = usual
    office.now += POLICY.backoff_ms_max
    asyncio.run(office.ask())
    assert [claim.finding for claim in office.claims] == ["PRESENT"]
    assert bank.asked == ["op-1", "op-1"]


def test_a_subject_that_was_resolved_while_it_waited_is_not_asked_about(make_request: Make) -> None:
    async def scene() -> list[str]:
        speak = asyncio.Event()
        bank = Bank(NotFound(), speak)
        office = Office({"bank": bank})
        for n in range(1, 6):
            office.desk.take_request(make_request(ledger_seq=n, subject_id=f"op-{n}"), 0)
        office.asker.look()
        office.desk.take_request(make_request(kind="RESOLVED", ledger_seq=6, subject_id="op-5"), 0)
        speak.set()
        await office.asker.settle()
        return bank.asked

    assert asyncio.run(scene()) == ["op-1", "op-2", "op-3", "op-4"]


def test_the_schedule_keeps_one_moment_a_subject() -> None:
    schedule = Schedule()
    schedule.set("a", 30)
    schedule.set("b", 20)
    schedule.set("a", 10)
    schedule.drop("b")
    assert (schedule.next_at(), schedule.take(9), schedule.take(10), schedule.take(99)) == (10, None, "a", None)
