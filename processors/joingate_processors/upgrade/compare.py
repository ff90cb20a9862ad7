"""What a new catalogue means for each open thing on a partition: fine, other rules than before, or no way to an end.

"Former" is the catalogue in force, "new" the one that is to be. What a commitment was made under is its type at its own
version, as `protocols` remembers it; so a raised version changes nothing for what is open, and an edit under the same
version does. Only what nobody but a person could end any more counts as UNDISCHARGEABLE.
"""

from joingate_processors.law.case import Case
from joingate_processors.law.custody import is_durable, is_external, is_retired, offer_of, owner_kind
from joingate_processors.law.opening import discharging_action, obligation_of
from joingate_processors.law.protocols import protocol_key
from joingate_processors.law.state import Commitment, Operation
from joingate_processors.upgrade.differences import changes, type_changes
from joingate_processors.upgrade.report import Concern, Outcome, Report
from joingate_processors.upgrade.sight import OpenState, open_commitments, open_operations, unclaimed_operations
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.claims import Role

_MAY_HAVE_ACTED = frozenset({"SUBMITTED", "IN_DOUBT", "ESCALATED"})


def compare(state: OpenState, former: Catalogue, new: Catalogue, report: Report | None = None) -> Report:
    """What `new` means for everything that is open in `state`, where `former` is in force; added to `report`."""
    report = Report() if report is None else report
    comparison = _Comparison(state, former, new)
    for row in open_commitments(state):
        what = f"{row.status} commitments of type {row.obligation_type}, version {row.type_version}"
        report.add(what, row.commitment_id, comparison.commitment(row))
    for operation in open_operations(state):
        waiting = operation.status == "STAGED" and operation.timer == "APPROVAL"
        what = "operations that wait for approval" if waiting else f"{operation.status} operations"
        report.add(f"{what}, of action {operation.action}", operation.operation_id, comparison.operation(operation))
    for operation in unclaimed_operations(state):
        what = f"settled operations of action {operation.action} that nobody has taken up"
        report.add(what, operation.operation_id, comparison.unclaimed(operation))
    return report


def _cannot(why: str, advice: str) -> Concern:
    return Concern("UNDISCHARGEABLE", why, advice)


def _changes(why: str, advice: str) -> Concern:
    return Concern("CHANGES", why, advice)


def _fine(why: str) -> Concern:
    return Concern("FINE", why, "")


class _Comparison:
    def __init__(self, state: OpenState, former: Catalogue, new: Catalogue) -> None:
        self._state = state
        self._former = former
        self._new = new
        # Only what is declared is asked of these: the time and the speaker are nobody's.
        self._before = Case(state, former, 0, "GATE")
        self._after = Case(state, new, 0, "GATE")

    # --- commitments -------------------------------------------------------------------------------------------------

    def commitment(self, row: Commitment) -> list[Concern]:
        """What the new catalogue means for an open commitment."""
        name, origin = row.obligation_type, self._state.operations.get(row.creating_operation or "")
        unmade = origin is not None and not origin.permits and origin.status in ("STAGED", "VALIDATED")
        if origin is not None and unmade and self._gone(origin):
            return [
                _changes(
                    "it is not made yet, and never will be, since its operation is withdrawn",
                    f"keep the action {origin.action} if it is wanted still",
                )
            ]
        way = discharging_action(self._before, row, origin)
        if name not in self._new.obligations:
            keep = f"the type {name}" if way is None else f"the type {name} with its action {way}"
            return [
                _cannot(f"the type {name} is not declared any more", f"keep {keep} until its last one is discharged")
            ]
        found = [*self._rules(row), *self._way_out(row, origin, way), *self._observation(row, origin)]
        found += self._owner(row)
        if origin is not None and origin.status == "SETTLED":
            found += self._resources(origin)  # one that is open tells of its own
        return found

    def _rules(self, row: Commitment) -> list[Concern]:
        """By which rules it goes on: those of its own version, where that is another than the one declared now."""
        declared = self._new.obligations[row.obligation_type]
        if declared.version == row.type_version:
            return type_changes(obligation_of(self._before, row), declared)
        if self._state.protocols.get(protocol_key(declared.name, row.type_version)) is None:
            return [
                _changes(
                    f"nobody knows its version {row.type_version} any more: version {declared.version} rules it",
                    f"see that version {declared.version} fits what was made under version {row.type_version}",
                )
            ]
        return [
            _fine(
                f"ruled by version {row.type_version} to its end; what is made from here on by version "
                f"{declared.version}"
            )
        ]

    def _way_out(self, row: Commitment, origin: Operation | None, was: str | None) -> list[Concern]:
        """Whether what gives it back, or mitigates it, is there still; what no machine could end loses nothing."""
        if was is None:
            return []
        now = discharging_action(self._after, row, origin)
        if now is None or now not in self._new.actions:
            gone = "is not declared any more" if was not in self._new.actions else "is not named for it any more"
            return [
                _cannot(
                    f"nothing gives it back: the action {was} {gone}",
                    f"keep the action {was}, and what names it, until its last one is discharged",
                )
            ]
        advice = f"see that {now} undoes what was made before the upgrade, too"
        if now != was:
            return [_changes(f"it is given back by {now} instead of {was}", advice)]
        before, after = self._former.actions.get(was), self._new.actions[now]
        return [] if before is None else changes(before, after, f"the action {now}, which gives it back,", advice)

    def _observation(self, row: Commitment, origin: Operation | None) -> list[Concern]:
        """Whether somebody can be asked whether it is there, or gone, where that has to be observed."""
        if origin is None or not obligation_of(self._after, row).observed:
            return []
        after = self._new.downstreams.get(origin.downstream)
        if after is None:
            return [
                _cannot(
                    f"the downstream {origin.downstream}, which is asked whether it is there, is not declared any more",
                    f"keep the downstream {origin.downstream} until its last one is discharged",
                )
            ]
        found = self._speakers("OBSERVER", row.intent_id, None, "UNDISCHARGEABLE")
        before = self._former.downstreams.get(origin.downstream)
        if before is not None:
            found += changes(before, after, f"the downstream {origin.downstream}", _LOOK_AT_IT)
        return found

    def _owner(self, row: Commitment) -> list[Concern]:
        """Whether its owner, or who is asked to take it over, may have it still."""
        found, kind = [], owner_kind(row.owner_id)
        if is_durable(self._before, row.owner_id) and not is_durable(self._after, row.owner_id):
            found.append(
                _changes(
                    f"owners of the kind {kind} do not last any more, and are given nothing back",
                    f"keep the kind {kind}, or move it to an owner that lasts",
                )
            )
        if is_retired(self._before, row.owner_id) and self._assigns(self._former, row) > self._assigns(self._new, row):
            found.append(
                _changes(
                    "its owner is retired, and fewer policies, or none, may assign it another",
                    "keep the policies that cover it until it has an owner",
                )
            )
        offer = offer_of(self._before, row)
        if offer is None:
            return found
        target, advice = offer.target_owner, f"let the transfers to {owner_kind(offer.target_owner)} end first"
        if is_durable(self._before, target) and not is_durable(self._after, target):
            found.append(_changes(f"the transfer to {target} can't be acknowledged any more", advice))
        elif is_external(self._before, target) != is_external(self._after, target):
            found.append(_changes(f"whether a transfer to {target} ends it for us changes", advice))
        return found

    @staticmethod
    def _assigns(catalogue: Catalogue, row: Commitment) -> int:
        """How many policies can give the commitment an owner."""
        covers = (one.obligations for one in catalogue.policies.values())
        return sum(not types or row.obligation_type in types for types in covers)

    # --- operations --------------------------------------------------------------------------------------------------

    def operation(self, operation: Operation) -> list[Concern]:
        """What the new catalogue means for an operation that has not ended."""
        acted = operation.status in _MAY_HAVE_ACTED
        if self._gone(operation):
            return [self._lost(operation) if acted else self._withdrawn(operation)]
        found = self._declared(operation) + self._resources(operation)
        found += self._speakers(
            "EXECUTOR", operation.intent_id, operation.action, "UNDISCHARGEABLE" if acted else "CHANGES"
        )
        if operation.timer == "APPROVAL":
            found += self._speakers("APPROVER", operation.intent_id, operation.action, "CHANGES")
        return found

    def unclaimed(self, operation: Operation) -> list[Concern]:
        """What the new catalogue means for an effect that is there, and is neither a success nor undone yet."""
        before, after = self._former.actions.get(operation.action), self._new.actions.get(operation.action)
        if after is None:
            return [
                _changes(
                    f"no machine undoes it any more: the action {operation.action} is not declared",
                    f"keep the action {operation.action} until each is taken up or undone",
                )
            ]
        return [] if before is None else changes(before, after, f"the action {operation.action}", _LOOK_AT_IT)

    def _gone(self, operation: Operation) -> bool:
        return operation.action not in self._new.actions or operation.downstream not in self._new.downstreams

    def _lost(self, operation: Operation) -> Concern:
        """It may have acted. As long as its downstream is there, somebody can find out whether it did."""
        if operation.downstream in self._new.downstreams:
            return _changes(
                f"the action {operation.action} is not declared any more: it is not sent again, and "
                f"{operation.downstream} is asked whether it happened",
                f"keep the action {operation.action} if it is wanted still",
            )
        why = f"the downstream {operation.downstream} is not declared any more, and nobody is asked whether it happened"
        advice = f"keep the downstream {operation.downstream} until its last operation has ended"
        before = self._former.downstreams.get(operation.downstream)
        with_a_person = operation.status == "ESCALATED" or (before is not None and before.capabilities == ("NONE",))
        return _changes(why, advice) if with_a_person else _cannot(why, advice)

    def _withdrawn(self, operation: Operation) -> Concern:
        name = operation.action if operation.action not in self._new.actions else operation.downstream
        return _changes(
            f"{name} is not declared any more; nothing was permitted yet, so it is withdrawn when it would go on",
            f"keep {name} if it is wanted still",
        )

    def _declared(self, operation: Operation) -> list[Concern]:
        found: list[Concern] = []
        before, after = self._former.actions.get(operation.action), self._new.actions[operation.action]
        if operation.executor != after.executor:
            found.append(
                _changes(
                    f"its commands lie with the executor {operation.executor}, and new ones go to {after.executor}",
                    f"keep {operation.executor} running until its last one has ended",
                )
            )
        elif before is not None:
            found += changes(before, after, f"the action {operation.action}", _LOOK_AT_IT)
        was, now = self._former.downstreams.get(operation.downstream), self._new.downstreams[operation.downstream]
        return found if was is None else [*found, *changes(was, now, f"the downstream {now.name}", _LOOK_AT_IT)]

    def _resources(self, operation: Operation) -> list[Concern]:
        """What becomes of what it holds, or waits for; the arbiter gives back by the terms that it was taken on."""
        found: list[Concern] = []
        for kind in sorted({one.partition(":")[0] for one in operation.needs}):
            before, after = self._former.resources.get(kind), self._new.resources.get(kind)
            if after is None:
                found.append(
                    _changes(
                        f"the resource {kind} is not declared any more: what is held is given "
                        "back as it was taken, and what is asked for is denied",
                        f"keep the resource {kind} until nobody waits for it",
                    )
                )
            elif before is not None:
                found += changes(before, after, f"the resource {kind}", _LOOK_AT_IT)
        return found

    def _speakers(self, role: Role, intent_id: str, action: str | None, outcome: Outcome) -> list[Concern]:
        """Whether somebody may still speak in the role about it, where somebody may now."""
        if self._may_speak(self._new, role, intent_id, action) or not self._may_speak(
            self._former, role, intent_id, action
        ):
            return []
        about = "" if action is None else f" of {action}"
        speaks = f"speak as {role.lower()}{about}"
        return [Concern(outcome, f"no principal may {speaks} any more", f"keep a principal that may {speaks}")]

    @staticmethod
    def _may_speak(catalogue: Catalogue, role: Role, intent_id: str, action: str | None) -> bool:
        return not catalogue.principals or any(
            one.role == role
            and (not one.tenant or intent_id.startswith(f"{one.tenant}/"))
            and (action is None or not one.actions or action in one.actions)
            for one in catalogue.principals.values()
        )


_LOOK_AT_IT = "see that what was begun before the upgrade may end by the new rules"
