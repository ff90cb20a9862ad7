"""Rows of the join gate's table for what relies on commitments, and for what may be asked of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from joingate_schemas import claims as c

from .catalogues import sealed
from .driver import Court, step
from .life_catalogue import DAY_MS, HOUR_MS, lived
from .scenes import Row, edges, opened, then

RELYING = (step("h", "make_hold"), step("d", "notify", edges=edges("REQUIRES", "h")))


def on_hold(court: Court) -> None:
    """Given: step d relies on the hold that step h made, which is in force."""
    court.open(*RELYING)
    court.active("h")


def owed(name: str) -> Callable[[Court], None]:
    """Given: step s1 made a commitment of this type, which is in force."""

    def given(court: Court) -> None:
        court.open(step("s1", f"make_{name}"))
        if court.dispatch("s1").status == "STAGED":
            court.approve("s1")
        court.active("s1")

    return given


def conditional(action: str, condition: str) -> c.PlanStep:
    """A step with a condition."""
    return step("s1", action, condition=condition)


def raise_version(court: Court, kind: str, **fields: Any) -> None:
    """The next version of the type comes into force; with the fields of the one in the catalogue of lives but these."""
    whole, was = court.catalogue, lived().obligations[kind]
    raised = replace(was, version=whole.obligations[kind].version + 1, **fields)
    court.catalogue = sealed(replace(whole, obligations={**whole.obligations, kind: raised}))
    court.load()


def then_raised(kind: str, **fields: Any) -> Callable[[Court], None]:
    """Given: step s1's commitment of the type is in force, and another version of it than its own."""

    def given(court: Court) -> None:
        court.load()
        court.open(step("s1", f"make_{kind}"))
        court.active("s1")
        raise_version(court, kind, **fields)

    return given


ROWS = {
    "reliance": [
        Row("on what has expired", "COMMITMENT_EXPIRED", lambda x: x.dispatch("d"),
            then(lambda x: x.observe_commitment("h", "PRESENT"), lambda x: x.dispatch("d")),
            given=then(on_hold, lambda x: x.advance(7 * DAY_MS), lambda x: x.dispatch("h")), catalogue=lived),
        Row("a permit for what relies on what has expired", "COMMITMENT_EXPIRED", lambda x: x.prepared("d"),
            then(lambda x: x.observe_commitment("h", "PRESENT"), lambda x: x.prepared("d")),
            given=then(on_hold, lambda x: x.dispatch("d"), lambda x: x.advance(7 * DAY_MS), lambda x: x.dispatch("h")),
            catalogue=lived),
        Row("on what is not there", "UNKNOWN_COMMITMENT", lambda x: x.dispatch("s1"), None,
            given=opened(step("s1", commitments=["made-up"])), catalogue=lived),
        Row("on what is being given back", "DEPENDENCY_UNMET", lambda x: x.dispatch("s2"), None,
            given=then(on_hold, lambda x: x.plan(RELYING[0], step("s2", commitments=[x.commitment_id("h")]),
                                                 plan_id="p2", replaces="p1"),
                       lambda x: x.override("COMMITMENT", x.commitment_id("h"), "RELEASE_PENDING")),
            catalogue=lived),
        Row("a release of what the plan in force relies on", "RELEASE_OF_ACTIVE", lambda x: x.release("h"),
            then(lambda x: x.perform("d"), lambda x: x.release("h")), given=on_hold, catalogue=lived),
        Row("a permit while the condition is not met any more", "DEPENDENCY_UNMET", lambda x: x.prepared("s1"),
            then(lambda x: x.observe_condition("migration:a", "PRESENT", source_version=3), lambda x: x.prepared("s1")),
            given=then(opened(step("s1", "make_message", arguments={"name": "a"})), lambda x: x.dispatch("s1"),
                       lambda x: x.observe_condition("migration:a", "PRESENT", source_version=1),
                       lambda x: x.observe_condition("migration:a", "ABSENT", source_version=2)),
            catalogue=lived),
    ],
    "conditions": [
        Row("of what makes no obligation", "MALFORMED", lambda x: x.plan(conditional("notify", "ready")),
            lambda x: x.plan(conditional("make_hold", "ready")), given=lambda x: x.declare(), catalogue=lived),
        Row("other than the catalogue's own", "MALFORMED", lambda x: x.plan(conditional("make_message", "ready")),
            lambda x: x.plan(step("s1", "make_message")), given=lambda x: x.declare(), catalogue=lived),
        Row("without a name", "MALFORMED", lambda x: x.plan(conditional("make_hold", "")),
            lambda x: x.plan(conditional("make_hold", "ready")), given=lambda x: x.declare(), catalogue=lived),
        Row("older news of one", "STALE_OBSERVATION",
            lambda x: x.observe_condition("ready", "PRESENT", source_version=1),
            lambda x: x.observe_condition("ready", "PRESENT", source_version=3),
            given=then(lambda x: x.declare(), lambda x: x.observe_condition("ready", "ABSENT", source_version=2)),
            facts=("ObservationRecorded",), catalogue=lived),
    ],
    "resolution classes": [
        Row("giving back what can only be handed over", "ILLEGAL_TRANSITION", lambda x: x.release("s1"), None,
            given=owed("duty"), catalogue=lived),
        Row("giving back what can't be undone", "COMPENSATION", lambda x: x.release("s1"), None,
            given=owed("filing"), verdict="COMPENSATE",
            facts=("DispositionDecided", "OperationOpened", "CommitmentChanged"), catalogue=lived),
        Row("the same where a person has to answer for it", "COMPENSATION", lambda x: x.release("s1"), None,
            given=owed("statement"), verdict="COMPENSATE",
            facts=("DispositionDecided", "CommitmentChanged"), catalogue=lived),
        Row("satisfaction without the evidence that the type demands", "NO_EVIDENCE", lambda x: x.satisfied("s1"),
            lambda x: x.satisfied("s1", evidence=["receipt:77"]),
            given=owed("reply"), catalogue=lived),
        Row("looking at what was not made", "ILLEGAL_TRANSITION",
            lambda x: x.reconcile("COMMITMENT", x.commitment_id("s1")), None,
            given=then(opened(step("s1", "make_message")), lambda x: x.dispatch("s1"), lambda x: x.advance(HOUR_MS - 1),
                       lambda x: x.dispatch("s1")), catalogue=lived),
        Row("forcing what was not made", "ILLEGAL_TRANSITION",
            lambda x: x.override("COMMITMENT", x.commitment_id("s1"), "SATISFIED"),
            lambda x: x.override("COMMITMENT", x.commitment_id("s1"), "RELEASED"),
            given=then(opened(step("s1", "make_message")), lambda x: x.dispatch("s1")), catalogue=lived),
        Row("moving to a version that could not end it", "INCOMPATIBLE_VERSION",
            lambda x: x.override("COMMITMENT", x.commitment_id("s1"), "MIGRATED"),
            then(lambda x: raise_version(x, "hold"),
                 lambda x: x.override("COMMITMENT", x.commitment_id("s1"), "MIGRATED")),
            given=then_raised("hold", resolution="IRREVERSIBLE", release_action=None), catalogue=lived),
    ],
}  # fmt: skip
