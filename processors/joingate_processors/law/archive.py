"""Archiving: what has ended is put away after a declared retention, and never before everything under it has ended.

It is decided like everything else, by a timer of the gate's, so that it is in the ledger and replays. What the ledger
says stays there; what goes are the rows by which the gate decides. A tombstone of the intent stays, and whoever speaks
of it again is told so: nothing about it takes effect any more.
"""

from joingate_processors.law.archived import Archive, has_mark, mark_of
from joingate_processors.law.arrival import Ruling
from joingate_processors.law.belongings import page_of
from joingate_processors.law.case import Case, Refused, refuse
from joingate_processors.law.commitments import REMINDER_MS
from joingate_processors.law.evolve_orphans import unheard_key
from joingate_processors.law.protocols import catalogue_of, declared_by
from joingate_processors.law.state import Intent
from joingate_schemas import claims as c
from joingate_schemas import facts as f
from joingate_schemas.facts import AnyFact

__all__ = ["ROWS_MAX", "check", "ended", "fired", "over", "retention_declared", "so_said", "spoken_of"]

ROWS_MAX = 500
"""About how many rows of an archived intent one decision forgets, and how many intents one looks through: its record
stays well below what a ledger record may be, and other claims are heard between two of them."""


# --- claims about what is archived -----------------------------------------------------------------------------------


def check(case: Case, intent_id: str) -> None:
    """Refuse if the intent of this id, of which there is no row, was archived."""
    row = case.archived(intent_id)
    if row is not None:
        raise Refused(over(row))


def spoken_of(case: Case, claim: c.AnyClaim) -> Archive | None:
    """The archived intent that the claim asks something of; None if it asks nothing of one.

    The gate's own claims are heard, since the arbiter has to be answered, and so is what concerns an owner's things
    under all intents, a quarantined record, or an incident.
    """
    if case.role == "GATE" or isinstance(claim, c.RetireOwner):
        return None
    if isinstance(claim, c.Override) and (claim.subject_kind == "QUARANTINE" or claim.to == "CLEARED"):
        return None
    return case.archived(claim.intent_id)


def over(row: Archive) -> Ruling:
    """The refusal of whatever is asked of an archived intent."""
    return Ruling("REJECTED", "INTENT_ARCHIVED", _told(row), row.intent_id, "ARCHIVED")


def so_said(case: Case, claim: c.AnyClaim, ruling: Ruling) -> Ruling | None:
    """The refusal as it reads where what is not known was archived; None where it was not.

    Its facts stay: what the arbiter granted is given back, and an effect that nobody can compare any more is looked at.
    One that is known to be the effect on record is no incident.
    """
    row = case.archived(claim.intent_id)
    if row is None:
        return None
    known = isinstance(claim, c.Commit) and has_mark(row.effects, mark_of(claim.operation_id, claim.external_id))
    detail = f"{_told(row)}; the effect is the one on record" if known else _told(row)
    facts = [] if known else ruling.facts
    return Ruling("REJECTED", "INTENT_ARCHIVED", detail, ruling.subject_id, "ARCHIVED", facts)


def _told(row: Archive) -> str:
    how = "closed" if row.status == "CLOSED" else "cancelled"
    return (
        f"intent {row.intent_id} was {how}, and archived at {row.archived_at} by record {row.archived_seq} of its "
        "partition's ledger, which tells what it did"
    )


# --- when ------------------------------------------------------------------------------------------------------------


def ended(case: Case, intent_id: str, cause: str) -> list[AnyFact]:
    """That the retention begins, if one is declared: the intent is closed, or cancelled."""
    wait = case.catalogue.retention_ms
    if wait is None:
        return []
    return [f.RetentionSet(intent_id=intent_id, since=case.now, retention_ms=wait, cause=cause,
                           deadline_at=case.now + wait)]  # fmt: skip


def retention_declared(case: Case, claim: c.CatalogueChanged) -> list[AnyFact]:
    """That ended intents are looked through, where a catalogue declares another retention than the one before it."""
    # By its own words: who decides this claim again has only the one before it in force.
    declared, header = declared_by(claim.catalogue.decode(errors="replace")), case.state.header.get("")
    wait = None if declared is None else declared.retention_ms
    if wait is None or header is None or not header.catalogue_digest:
        return []
    former = catalogue_of(case.state, header.catalogue_digest)
    if former is not None and former.retention_ms == wait:
        return []
    return [f.RetentionSwept(swept="", intents=[], retention_ms=wait, deadline_at=case.now + 1)]


def fired(case: Case, claim: c.TimerFired) -> Ruling:
    """A retention has passed, more rows of an archived intent go, or more ended intents are looked through."""
    row = case.state.archives.get(claim.subject_id)
    if row is None or (row.timer, row.deadline_at) != (claim.timer, claim.due_at):
        refuse("ALREADY_RESOLVED", f"{claim.timer} of {claim.subject_id} is not waited for any more", claim.subject_id)
    if not row.intent_id:
        return _look_through(case, row)
    if row.archived_at is not None:
        swept = _swept(case, row.intent_id, row.discharging, row.swept, row.archived_seq)
        return Ruling("ACCEPTED", "OK", f"{row.rows} rows went before", row.intent_id, "ARCHIVED", [swept])
    return _retained(case, row)


def _look_through(case: Case, row: Archive) -> Ruling:
    """The next ended intents; each of them waits for its retention from here on."""
    wait = case.catalogue.retention_ms
    if wait is None:
        facts: list[AnyFact] = [f.RetentionSwept(swept=row.swept, intents=[], retention_ms=0)]
        return Ruling("ACCEPTED", "OK", "no retention is declared any more", "", "", facts)
    keys = case.state.intents.page("", row.swept, ROWS_MAX)
    found = [one for one in keys if _waits_otherwise(case, one, wait)]
    more = len(keys) == ROWS_MAX
    facts = [f.RetentionSwept(swept=keys[-1] if keys else row.swept, intents=found, retention_ms=wait,
                              deadline_at=case.now + 1 if more else None)]  # fmt: skip
    return Ruling("ACCEPTED", "OK", f"{len(found)} ended intents found", "", "", facts)


def _waits_otherwise(case: Case, intent_id: str, wait: int) -> bool:
    intent, row = case.state.intents.get(intent_id), case.state.archives.get(intent_id)
    return intent is not None and intent.status != "OPEN" and (row is None or row.retention_ms != wait)


def _retained(case: Case, row: Archive) -> Ruling:
    """Archive it, or say what it still waits for."""
    intent, wait = case.state.intents.get(row.intent_id), case.catalogue.retention_ms
    if intent is None or intent.status == "OPEN" or wait is None:
        return _put_off(row, 0, "no retention is declared any more" if wait is None else "it has not ended", None)
    due = row.since + wait
    if due > case.now:
        return _put_off(row, wait, "the retention is longer now", due)
    held = _quarantined(case, intent.intent_id)
    if held:
        return _put_off(row, wait, held, case.now + REMINDER_MS)
    left = _left(case, intent)
    if left:
        return _put_off(row, wait, left, None)
    archived = f.IntentArchived(
        intent_id=intent.intent_id, version=intent.version, status=intent.status,
        content_digest=intent.content_digest, since=row.since, retention_ms=wait,
    )  # fmt: skip
    header = case.state.header.get("")
    seq = 1 if header is None else header.seq + 1
    swept = _swept(case, intent.intent_id, intent.discharging, "", seq)
    return Ruling("ACCEPTED", "OK", "nothing is open, and its retention has passed", intent.intent_id, "ARCHIVED",
                  [archived, swept])  # fmt: skip


def _put_off(row: Archive, wait: int, cause: str, deadline_at: int | None) -> Ruling:
    fact = f.RetentionSet(intent_id=row.intent_id, since=row.since, retention_ms=wait, cause=cause,
                          deadline_at=deadline_at)  # fmt: skip
    return Ruling("ACCEPTED", "OK", f"it is kept: {cause}", row.intent_id, "", [fact])


def _swept(case: Case, intent_id: str, discharging: str, swept: str, before_seq: int) -> f.ArchiveSwept:
    page = page_of(case.state, intent_id, discharging, swept, ROWS_MAX, before_seq)
    return f.ArchiveSwept(
        intent_id=intent_id, operations=page.operations, commitments=page.commitments, steps=page.steps,
        plans=page.plans, conditions=page.conditions, goals=page.goals, claims=page.claims, swept=page.swept,
        discharging=page.discharging, deadline_at=case.now + 1 if page.more else None,
    )  # fmt: skip


# --- what keeps it ---------------------------------------------------------------------------------------------------


def _quarantined(case: Case, intent_id: str) -> str:
    """The quarantined record that may have spoken of the intent, in a sentence; empty where there is none."""
    for scope in (intent_id, ""):
        first = case.state.scoped_quarantines.first(scope)
        if first is not None:
            return f"the quarantined record {first} may have spoken of it"
    return ""


def _left(case: Case, intent: Intent) -> str:
    """What is counted under the intent still, in a sentence; empty where nothing is."""
    counts = (
        (intent.operations_open, "open operations"),
        (intent.commitments_open, "open commitments"),
        (intent.commitments_elsewhere, "commitments that somebody else has in hand"),
        (intent.orphans_open, "open incidents"),
        (len(case.state.backlogs.page(unheard_key(intent.intent_id), "", 1)), "open incidents older than itself"),
        (_not_taken_up(case, intent), "settled operations that nobody took up"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def _not_taken_up(case: Case, intent: Intent) -> int:
    """How many effects nobody took up; having looked leaves none behind."""
    if not intent.operations_unclaimed:
        return 0
    found = 0
    for one in case.state.unclaimed_operations.members(intent.intent_id):
        row = case.state.operations.get(one)
        action = case.action_of(row) if row is not None else None
        looks = row is not None and row.status == "SETTLED" and not row.compensating and row.timer == "NONE"
        found += not (looks and action is not None and action.effect == "OBSERVE")
    return found
