"""Every reason a decision can carry: a stable number, what it means, what to do, and whether trying again can help.

Numbers never change and are never used twice. Their hundreds follow the fixed order of the guards (model §6):
0 fine, 1 shape, 2 role and principal, 3 identity and replay, 4 intent and plan currency, 5 state, 6 authority and
approval, 7 order and dependencies, 8 resources, 9 budget and debt.
"""

from dataclasses import dataclass
from enum import Enum


class Retry(Enum):
    """Whether sending again can change the answer."""

    NO = "no: the answer stays the same"
    LATER = "yes, unchanged, once what it waits for has happened"
    CHANGED = "yes, as a new claim with the fault mended"


@dataclass(frozen=True)
class Reason:
    """One reason. `number` is stable; `meaning` and `advice` are sentences for the claimant."""

    name: str
    number: int
    meaning: str
    advice: str
    retry: Retry


def _table(*rows: tuple[int, str, str, str, Retry]) -> dict[str, Reason]:
    table = {name: Reason(name, number, meaning, advice, retry) for number, name, meaning, advice, retry in rows}
    assert len(table) == len(rows) == len({number for number, *_ in rows}), "a reason's name and number are unique"
    return table


NO, LATER, CHANGED = Retry.NO, Retry.LATER, Retry.CHANGED
REASONS: dict[str, Reason] = _table(
    (0, "UNKNOWN", "A reason that this release does not know.", "Read it with the release that wrote it.", NO),
    (1, "OK", "The claim holds; its facts follow.", "Nothing.", NO),
    (2, "SAME_OPERATION", "This wish already has its operation; its present status is returned.",
     "Go by the status; nothing was sent again.", NO),
    (3, "IN_DOUBT_PENDING", "The operation is in doubt: it may or may not have happened, and is being looked into.",
     "Wait for the reconciler or a person; do not ask for the effect again.", LATER),
    (4, "ALREADY_SO", "What is claimed is so already.", "Nothing.", NO),
    (5, "COMPENSATION", "It happened and can't be unsaid; the named compensation or human gate follows instead.",
     "Follow the compensating operation or the gate that the decision names.", NO),
    (6, "HELD", "Refusing it would rest on what an unreadable record may have said, so it waits.",
     "Wait until the quarantined record is re-driven or dismissed.", LATER),
    (100, "MALFORMED", "A field is missing, empty or out of range.",
     "Mend the named field; use a new claim id.", CHANGED),
    (101, "UNREADABLE", "The bytes are no record of a schema that is known.",
     "Send it in a registered schema.", CHANGED),
    (102, "UNKNOWN_SCHEMA", "The schema id is not known to the gate.", "Register the schema first.", CHANGED),
    (103, "WRONG_PARTITION", "The record lies on another partition than its key hashes to with murmur2.",
     "Set the producer's partitioner to murmur2_random.", CHANGED),
    (104, "MISSING_KEY", "The record has no key.", "Key each claim by its intent id.", CHANGED),
    (105, "KEY_NOT_INTENT", "The record's key is not the claim's intent id.",
     "Key each claim by its intent id.", CHANGED),
    (106, "OVERSIZED", "The record is larger than a claim may be.", "Keep evidence outside and refer to it.", CHANGED),
    (107, "UNKNOWN_ACTION", "The catalogue has no such action.", "Name a declared action.", CHANGED),
    (108, "CYCLE", "The binding edges of the plan run in a circle.", "Break the circle.", CHANGED),
    (109, "DUPLICATE_SLOT", "Two steps of the plan have the same action and business key.",
     "Give each step the business key of the entity that it acts on.", CHANGED),
    (110, "DUPLICATE_STEP", "Two steps of the plan have the same step id.", "Give each its own id.", CHANGED),
    (111, "UNKNOWN_STEP", "An edge points to a step that the plan does not have.", "Mend the edge.", CHANGED),
    (112, "NOT_SUPPORTED", "This release reads the claim but has no rule that would let it take effect.",
     "Use a release whose notes name this claim.", NO),
    (113, "UNDECIDABLE", "The gate failed at deciding it: a fault of the gate, or a claim with too much to follow.",
     "Report it with its coordinates; the record is kept in quarantine.", LATER),
    (120, "UNKNOWN_OBLIGATION", "The catalogue has no such type of obligation.", "Name a declared type.", CHANGED),
    (121, "UNKNOWN_POLICY", "The catalogue has no such policy of assignment.", "Name a declared policy.", CHANGED),
    (200, "WRONG_ROLE", "Claims of this type may not arrive on this topic.",
     "Write it to the topic of the role that may say it.", CHANGED),
    (201, "WRONG_EXECUTOR", "The action belongs to another executor; an effect reported all the same is recorded.",
     "Let the declared executor act.", NO),
    (202, "UNKNOWN_PRINCIPAL", "The catalogue does not know the principal, or not in this role or for this action.",
     "Declare the principal, or use one that is.", CHANGED),
    (203, "NO_EVIDENCE", "A forced transition needs a reason and evidence; a Commit an external id, key or evidence.",
     "Give what is missing; to a downstream that knows keys, evidence alone is not enough.", CHANGED),
    (204, "UNSIGNED", "The claim has no signature, and such a claim has to have one.",
     "Sign it with a key of its principal, or have the gateway sign that knows who speaks.", CHANGED),
    (205, "BAD_SIGNATURE", "The signature is none, is not of what the claim says, or is by a key of somebody else.",
     "Sign what is sent, as it is sent, with a key of who speaks.", CHANGED),
    (206, "UNKNOWN_KEY", "Nobody has registered the key on this partition.",
     "Register the key, and see that it is known on every partition.", LATER),
    (207, "KEY_REVOKED", "The key was revoked from a time on, and the claim came after it.",
     "Sign with a key that is in force; if nobody told you of it, ask who revoked it.", CHANGED),
    (208, "KEY_REPLACED", "Another key took the place of this one, and the time in which both held is over.",
     "Sign with the newer key.", CHANGED),
    (209, "OVER_LIMIT", "It is more than the principal may ask for, perform or approve.",
     "Have a principal say it whose limits allow it.", CHANGED),
    (210, "NOT_REGISTRAR", "Who speaks may not register or revoke keys.",
     "Have an operator do it whom the catalogue declares a registrar.", CHANGED),
    (211, "KEY_TAKEN", "The key is, or was, another's, or it has ended; no key changes hands, and none comes back.",
     "Make a new key.", CHANGED),
    (300, "CLAIM_REPEATED", "This claim id was decided before; the recorded decision stands.", "Nothing.", NO),
    (301, "CLAIM_ID_REUSED", "The claim id was used for another claim.", "Use a new claim id.", CHANGED),
    (302, "KEY_MISMATCH", "The idempotency key, or the business key, is not the one derived for this wish.",
     "Send no key, or the one that the gate derives.", CHANGED),
    (303, "KEY_PAYLOAD_MISMATCH", "The same wish with other meaning-bearing arguments; nothing was touched.",
     "For a different effect use another business key; else repeat the arguments.", CHANGED),
    (400, "UNKNOWN_INTENT", "No such intent was declared.", "Declare the intent first.", CHANGED),
    (401, "STALE_INTENT", "A newer version of the intent is in force.", "Plan again for the current version.", CHANGED),
    (402, "UNKNOWN_VERSION", "The intent has no such version yet.", "Declare the version first.", CHANGED),
    (403, "VERSION_CONFLICT", "That version of the intent exists with other content.",
     "Declare a higher version.", CHANGED),
    (404, "INTENT_CLOSED", "The intent is closed and never reopens.",
     "An honest repetition carries an occurrence in its business entity.", CHANGED),
    (405, "INTENT_CANCELLED", "The intent was cancelled; only discharging work goes on.",
     "Declare a higher version.", CHANGED),
    (406, "PLAN_CONFLICT", "The plan does not replace the plan in force, or its id was used for other content.",
     "Read the plan in force and name it in `replaces`.", CHANGED),
    (407, "NOT_PLANNED", "No plan in force has this step.", "Plan it first.", CHANGED),
    (408, "PLAN_SUPERSEDED", "Another plan is in force.", "Use the plan in force.", CHANGED),
    (409, "PLAN_CLOSED", "The plan ended with its intent.", "Declare a higher version and plan again.", CHANGED),
    (420, "INTENT_ARCHIVED", "The intent had ended, its retention has passed, and what it did is in the ledger alone.",
     "An honest repetition carries an occurrence in its business entity; of a late effect somebody has to look.",
     CHANGED),
    (500, "NOT_DISPATCHED", "No such operation or attempt was dispatched.",
     "Report the effect to a person: it is recorded as a suspected orphan.", NO),
    (501, "STALE_ATTEMPT", "A newer attempt is current; this one may not advance anything.", "Stop acting.", NO),
    (502, "ALREADY_CLAIMED", "Another worker holds this attempt, or its permit is spent.", "Do not act.", NO),
    (503, "NO_PERMIT", "An effect is reported that no permit allowed; it is recorded, and in doubt.",
     "Never act before the permit.", NO),
    (504, "NO_PROOF", "An exception, a timeout or a cancel does not prove that nothing happened.",
     "Wait for the reconciler, or bring a proof of absence.", CHANGED),
    (505, "NOT_COMMITTED", "There is no Commit for this step.", "Wait for the executor's Commit.", LATER),
    (506, "NOT_VERIFIED", "The Commit is in, its verification is not.", "Wait for the observation.", LATER),
    (507, "STRAY_EFFECT", "The operation settled with another external id; this is a further effect, now an orphan.",
     "Have a person look at both effects.", NO),
    (508, "CONFLICTING_OUTCOME", "It contradicts what was recorded; the operation is in doubt until settled.",
     "Wait for the reconciler.", LATER),
    (509, "STALE_OBSERVATION", "The source has said something newer before; kept as evidence only.", "Nothing.", NO),
    (510, "UNKNOWN_COMMITMENT", "No such commitment.", "Read the commitment's id from the ledger.", CHANGED),
    (511, "ILLEGAL_TRANSITION", "The subject can't go from its state to the one asked for.",
     "Read its present state first.", CHANGED),
    (512, "MISSING_JOIN", "A step of the plan has neither succeeded nor been compensated.",
     "Wait for the named step, or compensate it.", LATER),
    (513, "OPEN_OPERATIONS", "An operation of the intent is open, in doubt, or settled but taken up by nobody.",
     "Wait for the named operation, or take it up.", LATER),
    (514, "OPEN_COMMITMENTS", "A commitment of the intent is not discharged.",
     "Satisfy, release, transfer or reconcile the named commitment.", LATER),
    (515, "UNKNOWN_OPERATION", "No such operation.", "Read the operation's id from the ledger.", CHANGED),
    (516, "TOO_EARLY", "Something sent may still be on its way, so nothing proves yet that it did not happen.",
     "Look again after the longest in-flight time.", LATER),
    (517, "NOT_READY", "The operation still waits for its approval, its hold window or its resources.",
     "Wait for the PREPARE command.", LATER),
    (518, "OPERATION_ENDED", "The operation has ended.", "Read its present status.", NO),
    (519, "UNKNOWN_QUARANTINE", "No such quarantined record, or it was resolved already.",
     "List what is quarantined.", CHANGED),
    (520, "NOT_FRESH", "What justified the operation is no longer current, so no resend is permitted.",
     "Look up or tombstone only.", NO),
    (521, "KEY_WINDOW_PASSED", "The downstream may have forgotten the key, so the same key could act again.",
     "Look up instead of sending again.", NO),
    (522, "RELEASE_OF_ACTIVE", "The plan in force relies on this commitment.", "Replace the plan first.", CHANGED),
    (523, "ALREADY_RESOLVED", "It was settled by evidence before.", "Nothing.", NO),
    (530, "COMMITMENT_EXPIRED", "Its time has passed and nobody has seen it since, so nothing may rely on it.",
     "Wait for the observation, renew it, or plan without it.", LATER),
    (531, "INCOMPATIBLE_VERSION", "The version of its type that is in force could not rule it: compare it, or end it.",
     "Let it end by its own version, or declare a version that fits it.", CHANGED),
    (540, "IN_TRANSFER", "The commitment waits for somebody to take it over, and nothing new starts under it.",
     "Wait for the acknowledgement, or let its owner take the offer back by a Transfer to itself.", LATER),
    (541, "STALE_FENCE", "The token is not the current one: ownership, the offer or the lease has moved on.",
     "Stop acting for it; whoever owns or serves it now reads the token from the commitment's row.", NO),
    (542, "OWNER_RETIRED", "The owner was retired, and is given nothing new.", "Name another owner.", CHANGED),
    (550, "OBJECTIVE_ALREADY_SATISFIED", "A source has shown that the step's goal is reached, so it needs no work.",
     "Leave the step undone, it counts as joined; if the goal is not reached, have the source say so anew.", CHANGED),
    (551, "GOALS_NOT_SEEN", "The intent closes only once each goal was seen to be reached; the named were not.",
     "Have a source show them, with the evidence that they ask for; or declare a version that leaves them out.", LATER),
    (600, "APPROVAL_STALE", "The approval is for other content, or has expired.",
     "Approve the present content.", CHANGED),
    (601, "NOT_AWAITING_APPROVAL", "Nothing here waits for an approval.", "Nothing.", NO),
    (602, "MAKER_IS_CHECKER", "Who asked for it may not approve it.", "Have somebody else approve.", CHANGED),
    (603, "NOT_AN_APPROVER", "The yes of who speaks does not count for this action.",
     "Have somebody approve whom the action's policy names.", CHANGED),
    (610, "NOT_OWNER", "Who speaks is not the owner that may say this, and may not speak for it.",
     "Let the owner say it, or a principal that the catalogue lets speak for it.", CHANGED),
    (611, "NOT_DURABLE", "What is named is no durable owner: a worker ends, and its obligations would be orphans.",
     "Name a durable owner as kind:name, of a kind that the catalogue declares.", CHANGED),
    (612, "NOT_TRANSFERABLE", "Obligations of this type may not leave our books.",
     "Name an owner on our books, or declare the type TRANSFERABLE.", CHANGED),
    (613, "POLICY_FORBIDS", "The policy does not let this obligation be assigned to this owner.",
     "Use a policy that does, or another owner.", CHANGED),
    (614, "NOT_A_PROMISE", "No action of the catalogue promises obligations of this type.",
     "Declare an action with communication PROMISES and this obligation, or leave it text.", CHANGED),
    (700, "DEPENDENCY_UNMET", "What it requires, or what is irreversible before it, is not joined; or its rival is.",
     "Wait for the named step.", LATER),
    (701, "PIVOT_NOT_LAST", "The pivot goes last: something before it is not settled.",
     "Wait for the named step.", LATER),
    (800, "RESOURCE_DENIED", "Another operation holds the resource.", "Wait, or ask its holder.", LATER),
    (801, "RESOURCE_SPENT", "The resource can be acted on once, and the operation that is named has done so.",
     "Go by the status of that operation.", NO),
    (802, "OVER_CAPACITY", "What is left of the resource is less than what is asked for.",
     "Ask for less, or wait until a holder gives some back.", LATER),
    (803, "RESOURCE_QUARANTINED", "An operation on the resource is in doubt and can't be asked about.",
     "Wait until that operation is settled.", LATER),
    (804, "NOT_HELD", "The operation does not hold the resource.", "Nothing.", NO),
    (805, "STALE_MESSAGE", "The operation has said something newer of the resource before.", "Nothing.", NO),
    (806, "EXCEEDS_COMMITMENT", "More is taken of a commitment than it holds beside what others take of it.",
     "Take less, or wait until an operation that takes of it has ended.", LATER),
    (900, "COMMITMENT_DEBT", "More is open, unresolved or waiting for a person than the limits allow.",
     "Discharge the named one first; releases, transfers and reconciliation are always let through.", LATER),
    (901, "BUDGET_SPENT", "The intent's budget, or its share for exploration, does not cover what this costs.",
     "Do without it, or declare a higher version of the intent with a larger budget.", CHANGED),
)  # fmt: skip


def reason_number(name: str) -> int:
    """The stable number of the reason called `name`; 0 for one that this release does not know."""
    known = REASONS.get(name)
    return known.number if known else 0


_HUNDREDS = (
    "Fine", "Shape", "Role and principal", "Identity and replay", "Intent and plan currency", "State",
    "Authority and approval", "Order and dependencies", "Resources", "Budget and debt",
)  # fmt: skip


def reasons_markdown() -> str:
    """The table of all reasons as the page `docs/reasons.md`: what each means, what to do, whether to try again."""
    lines = [
        "# Reasons",
        "",
        "Every decision carries one reason. Its name and number never change and are never used for anything else.",
        "A claim that breaks several guards gets the reason of the first; guards run in the order of this page as far",
        "as each can be checked by then. A repeated claim id returns its recorded decision, refusals included: to try",
        "again, send a new claim under a new id.",
    ]
    hundred = -1
    for reason in sorted(REASONS.values(), key=lambda one: one.number):
        if reason.number // 100 != hundred:
            hundred = reason.number // 100
            lines += ["", f"## {_HUNDREDS[hundred]}", "", "| number | reason | meaning | what to do | trying again |"]
            lines.append("|---:|---|---|---|---|")
        cells = (str(reason.number), f"`{reason.name}`", reason.meaning, reason.advice, reason.retry.value)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
