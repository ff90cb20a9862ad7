"""Looking again: how what was asked for is doing, by the ids that were given out, within one tenant's own."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from joingate.gateway import answers
from joingate.gateway.answers import Answer, Row, State, refused
from joingate.gateway.asking import ReadSide
from joingate.gateway.tokens import Caller
from joingate.gateway.wishes import NotAWish, home_of
from joingate_processors.law.opening import digest
from joingate_projections.errors import NotFound
from joingate_projections.tables import shown
from joingate_schemas.catalogue import Action, Catalogue
from joingate_schemas.claims import Arguments
from joingate_schemas.facts import TERMINAL_COMMITMENT

# The state of a whole is that of its part that comes first here: what is unresolved outranks what is done.
_WORST: tuple[State, ...] = ("IN_DOUBT", "PENDING", "NOT_DONE", "WITHDRAWN", "UNDONE", "DONE")
_PARTS_MAX = 100
_OF_TABLE = {"intents": "UNKNOWN_INTENT", "operations": "UNKNOWN_OPERATION", "commitments": "UNKNOWN_COMMITMENT"}


@dataclass(frozen=True)
class Found:
    """A row by its id, and of which intent it is."""

    table: str
    row: Row
    intent_id: str


def find(reads: ReadSide, caller: Caller, subject_id: str, tables: Sequence[str]) -> Found:
    """What has this id in one of these tables, if it is the caller's own. Raises NotAWish, ReadError.

    What is another tenant's is answered as what is not there.
    """
    for table in tables:
        if table == "intents" and not caller.owns(subject_id):
            continue  # Ids of intents say whose they are, so the read side need not be asked about others'.
        row = reads.one(table, subject_id)
        if row is not None and caller.owns(str(row["intent_id"])):
            fresh = reads.one(table, subject_id, str(row["intent_id"]))
            return Found(table, fresh or row, str(row["intent_id"]))
    raise NotAWish(refused(_OF_TABLE[tables[-1]], f"nothing of yours is known by {subject_id}. If it was asked for a "
                           "moment ago, look once more; else ask for it again with the same arguments"))  # fmt: skip


def look(reads: ReadSide, catalogue: Catalogue, caller: Caller, subject_id: str) -> Answer:
    """How it is doing. Raises NotAWish, ReadError."""
    found = find(reads, caller, subject_id, ("operations", "commitments", "intents"))
    now = int(time.time() * 1000)
    if found.table == "operations":
        return of_operation(found.row, catalogue.actions.get(str(found.row["action"])), now)
    if found.table == "commitments":
        return of_commitment(found.row)
    return _of_intent(reads, catalogue, found.row, now)


def of_operation(row: Row, action: Action | None, now_ms: int) -> Answer:
    """An operation's row in words."""
    key = str(row["business_key"])
    if action is not None and action.effect == "OBSERVE":
        key = key.rpartition("@")[0] or key  # what follows tells this look from others
    what = f"{row['action']} of {key}" if key else str(row["action"])
    return answers.of_status(
        str(row["status"]), what, action=action, timer=str(row["timer"]), deadline_at=row["deadline_at"],
        verified=not (action is not None and action.verification) or bool(row["seen"]),
        undoing=row["compensation"] is not None, result=str(row["result"]), now_ms=now_ms,
        intent_id=str(row["intent_id"]), operation_id=str(row["operation_id"]),
        commitment_id=str(row["commitment_id"] or ""), plan_id=str(row["plan_id"]),
    )  # fmt: skip


def of_commitment(row: Row) -> Answer:
    """A commitment's row in words."""
    word, status = str(row["shown"]), str(row["status"])
    what = f"the {row['obligation_type']} on {', '.join(row['resource_refs']) or row['commitment_id']}"
    ids: Row = {"intent_id": str(row["intent_id"]), "commitment_id": str(row["commitment_id"]), "status": status}
    told = {name: row[name] for name in ("shown", "owner_id", "due_at", "valid_until", "resource_refs")}
    if word in (shown.IN_DOUBT, shown.ORPHANED, shown.BREACHED):
        answer = Answer(
            "IN_DOUBT", f"Something is wrong with {what} ({word.lower()}); it is being seen to.",
            "Do not make another one in its place. Look again with look_again after look_again_s seconds.",
            answers.LOOK_S["PERSON"],
        )  # fmt: skip
    elif status in ("PROPOSED", "PENDING_CONDITION", "RELEASE_PENDING", "TRANSFER_PENDING"):
        say = f"{what} is on its way ({status.lower().replace('_', ' ')}); that is not done yet."
        answer = Answer("PENDING", say, "Look again with look_again after look_again_s seconds.",
                        answers.LOOK_S["DOUBT"])  # fmt: skip
    elif status in TERMINAL_COMMITMENT:
        answer = Answer("DONE", f"{what} is {status.lower()}.", "Nothing.")
    else:
        answer = Answer("KNOWN", f"{what} is in force.", "Use it; do not make another one.")
    return replace(answer, told=told, **ids)


def intent_row(row: Row) -> Row:
    """What is told of an intent."""
    names = ("version", "objective", "status", "shown", "plan_id", "operations_open", "commitments_open")
    return {name: row[name] for name in names}


def _of_intent(reads: ReadSide, catalogue: Catalogue, row: Row, now_ms: int) -> Answer:
    intent_id = str(row["intent_id"])
    home = home_of(row)
    if home != intent_id:
        # It only says under which intent the wish is served; that one has what there is to tell.
        served = reads.one("intents", home)
        row = served if served is not None else row
    operations = reads.page("operations", home, limit=_PARTS_MAX)
    told = [of_operation(one, catalogue.actions.get(str(one["action"])), now_ms) for one in operations]
    told += [of_commitment(one) for one in reads.page("commitments", home, limit=_PARTS_MAX)]
    states = {one.state for one in told}
    state: State = next((one for one in _WORST if one in states), "KNOWN")
    leading = next((one for one in told if one.state == state), None)
    if leading is None:
        say = f"Nothing is done for this wish yet; it is {row['status'].lower()}."
        answer = Answer("KNOWN", say, "Propose a plan and ask for its steps, or ask for the action again.")
    else:
        answer = Answer(state, leading.say, leading.next, leading.look_again_s, operation_id=leading.operation_id)
    parts = [one.row() for one in told] if len(told) > 1 else []
    result = leading.result if leading is not None else ""
    return replace(answer, intent_id=home, status=str(row["status"]), parts=parts, told=intent_row(row), result=result)


def says_the_same(action: Action, one: Arguments, other: Arguments) -> bool:
    """Whether two askings for one business entity mean the same, by their meaning-bearing arguments."""
    return digest(action, "", one) == digest(action, "", other)


def context(reads: ReadSide, caller: Caller, intent_id: str) -> Answer:
    """What a planner needs before it plans, without what is another tenant's. Raises NotAWish, ReadError."""
    try:
        told = dict(reads.ask("context", intent_id, principal=caller.principal))
    except NotFound:
        raise NotAWish(refused("UNKNOWN_INTENT", f"you have no intent {intent_id}; state the wish first")) from None
    # Held by others, a resource is refused when it is asked for; how actions fared counts every tenant's.
    held = [one for one in told["resources"]["held"] if "intent_id" in one]
    told["resources"] = {**told["resources"], "held": held}
    told["competence"] = [{name: value for name, value in one.items() if name != "fared"} for one in told["competence"]]
    told.pop("position", None)
    return answers.known("This is what is known.", told, intent_id=intent_id)
