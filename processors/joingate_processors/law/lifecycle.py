"""The table of a commitment's life: its states, what each move between them needs, and what every claim does in each.

A test plays every cell of `MATRIX` against the law, and holds every move that the law makes to `MOVES`; the page
docs/commitments.md is made from the same (lifecycle_page).
"""

from typing import NamedTuple

from joingate_schemas.facts import CommitmentStatus


class Row(NamedTuple):
    """One claim or event, and what comes of it: outcomes, each with the columns (by letter) in which it does.

    An outcome is `stays`, a status that it has afterwards, or `refused`, `replayed` or `compensate` with the reason,
    and the status after it where that changes too.
    """

    name: str
    needs: str
    outcomes: dict[str, str]


STATES: dict[CommitmentStatus, str] = {
    "PROPOSED": "Asked for, not yet in force: its creation may not have begun, or is done and not yet seen.",
    "PENDING_CONDITION": "Asked for, and waiting for a condition to be observed. Nothing is made before.",
    "ACTIVE": "In force: made, seen (where its type is observed), and owned.",
    "SATISFIED": "Fulfilled, by evidence. Final.",
    "RELEASE_PENDING": "To be given back; that it is gone has still to be shown.",
    "RELEASED": "Given back, compensated, or never made; by evidence. Final.",
    "TRANSFER_PENDING": "Offered to another owner, who has not taken it yet. Nobody may start anything new about it.",
    "TRANSFERRED": "Another owner has it, by their acknowledgement. Final here.",
    "BREACHED": "Not met: missed, gone, or not given back in time. It rests here until it is discharged; the breach "
    "stays on the record.",
    "RECONCILIATION_REQUIRED": "Evidence conflicts, or an operation about it is unresolved: somebody has to look.",
    "UNKNOWN": "What is so in the world was not observed: its time passed, or its creation is in doubt.",
}
"""The eleven states, each in a sentence."""

COLUMNS: dict[str, tuple[CommitmentStatus, str]] = {
    "W": ("PENDING_CONDITION", "nothing is made yet"),
    "P": ("PROPOSED", "not yet permitted to be made"),
    "M": ("PROPOSED", "made, not yet seen"),
    "A": ("ACTIVE", "in force"),
    "U": ("UNKNOWN", "its time has passed"),
    "D": ("UNKNOWN", "its creation is in doubt"),
    "Q": ("RECONCILIATION_REQUIRED", "somebody asked that it is looked at"),
    "R": ("RECONCILIATION_REQUIRED", "its release is in doubt"),
    "L": ("RELEASE_PENDING", "its release is under way"),
    "B": ("BREACHED", "it was due"),
    "G": ("BREACHED", "its release is past its deadline, and goes on"),
    "O": ("TRANSFER_PENDING", "offered, and not taken yet"),
    "S": ("SATISFIED", ""),
    "F": ("RELEASED", ""),
    "T": ("TRANSFERRED", ""),
}
"""The columns: a state, in a situation that decides what is possible in it."""

_ALL = "WPMAUDQRLBGOSFT"
_NO_RELEASE = "WPMAUDQBOST"

MATRIX: dict[str, tuple[Row, ...]] = {
    "What may be asked": (
        Row("Release", "Nothing but the wish. What cannot be given back answers COMPENSATE; see the classes.",
            {"RELEASED": "WP", "RELEASE_PENDING": "MAUDQB", "replayed IN_DOUBT_PENDING": "R",
             "replayed ALREADY_SO": "LGF", "refused ILLEGAL_TRANSITION": "ST", "refused IN_TRANSFER": "O"}),
        Row("MarkSatisfied, with evidence", "Evidence of the kinds that its type demands, or any where it names none.",
            {"refused ILLEGAL_TRANSITION": "WPMUDQRLGOFT", "SATISFIED": "AB", "replayed ALREADY_SO": "S"}),
        Row("MarkSatisfied, without", "", {"refused NO_EVIDENCE": _ALL}),
        Row("RequestReconciliation", "Nothing; it makes somebody look.",
            {"refused ILLEGAL_TRANSITION": "WPOSFT", "RECONCILIATION_REQUIRED": "MAUDLBG",
             "replayed ALREADY_SO": "QR"}),
    ),
    "What is said of its owner": (
        Row("Transfer", "The owner's fencing token, and a target that lasts; outside our books, a TRANSFERABLE type.",
            {"refused ILLEGAL_TRANSITION": "WPMUDQRLGSFT", "TRANSFER_PENDING": "AB", "replayed ALREADY_SO": "O"}),
        Row("Transfer, to its owner", "The owner's fencing token: it takes the offer back, and it is what it was.",
            {"replayed ALREADY_SO": "WPMAUDQRLBGSFT", "ACTIVE": "O"}),
        Row("AcceptTransfer", "The offer's token, and the evidence that its type demands. Outside our books it is "
            "TRANSFERRED then, else what it was.",
            {"refused ILLEGAL_TRANSITION": "WPMAUDQRLBGSFT", "ACTIVE": "O"}),
        Row("Observe PRESENT, the target acting on it", "As an acknowledgement, with the same evidence.",
            {"stays": "WPADRLBGSFT", "ACTIVE": "MUQO"}),
        Row("AssignOwner", "A declared policy; its owner gone, an offer to that one, or a policy that takes over.",
            {"refused POLICY_FORBIDS": "WPMAUDQRLBG", "ACTIVE": "O", "refused ILLEGAL_TRANSITION": "SFT"}),
    ),
    "What systems of record say": (
        Row("Observe PRESENT", "Its creation settled and its ground current, else it is kept as news.",
            {"stays": "WPADRLBGOSFT", "ACTIVE": "MUQ"}),
        Row("Observe PRESENT, newer", "As before; about what had ended, newer news of one source is an incident.",
            {"stays": "WPADRLBGOSFT", "ACTIVE": "MUQ"}),
        Row("Observe ABSENT", "One look. It ends a release whose operation has ended, and what its time ended.",
            {"stays": "WPDQBSFT", "RECONCILIATION_REQUIRED": "MAO", "BREACHED": "U", "refused NO_PROOF": "RLG"}),
        Row("Observe ABSENT, with proof", "A proof that its downstream is able to, such as SECOND_LOOK.",
            {"stays": "WPDBSFT", "RECONCILIATION_REQUIRED": "MO", "BREACHED": "AUQ", "RELEASED": "RLG"}),
        Row("Observe REVOKED", "The source's own word that it took it back.",
            {"stays": "WPDBSFT", "RECONCILIATION_REQUIRED": "MO", "BREACHED": "AUQ", "RELEASED": "RLG"}),
        Row("Observe SEVERAL", "More than one match: none is picked.",
            {"stays": "WPQRSFT", "RECONCILIATION_REQUIRED": "MAUDLBGO"}),
        Row("Observe, with nothing that proves anything", "NOT_FOUND, PENDING, UNREACHABLE, RESEND or UNKNOWN.",
            {"stays": _ALL}),
        Row("Observe, its condition", "The condition PRESENT, and nothing newer against it.",
            {"PROPOSED": "W", "stays": "PMAUDQRLBGOSFT"}),
    ),
    "What a person may force": (
        Row("Override to PROPOSED", "", {"refused ILLEGAL_TRANSITION": "WAUDQRLBGOSFT", "replayed ALREADY_SO": "PM"}),
        Row("Override to PENDING_CONDITION", "",
            {"replayed ALREADY_SO": "W", "refused ILLEGAL_TRANSITION": "PMAUDQRLBGOSFT"}),
        Row("Override to ACTIVE", "Name, reason, evidence; its creation settled and no release of it open.",
            {"refused ILLEGAL_TRANSITION": "WPDRLGSFT", "ACTIVE": "MUQBO", "replayed ALREADY_SO": "A"}),
        Row("Override to SATISFIED", "The same, and no release of it that may have acted.",
            {"refused ILLEGAL_TRANSITION": "WPDRFT", "SATISFIED": "MAUQLBGO", "replayed ALREADY_SO": "S"}),
        Row("Override to RELEASE_PENDING", "Name, reason, evidence; no release of it in doubt.",
            {"refused ILLEGAL_TRANSITION": "WPRSFT", "RELEASE_PENDING": "MAUDQBO", "replayed ALREADY_SO": "LG"}),
        Row("Override to RELEASED", "Name, reason, evidence.",
            {"RELEASED": "WPMAUDQRLBGO", "refused ILLEGAL_TRANSITION": "ST", "replayed ALREADY_SO": "F"}),
        Row("Override to TRANSFER_PENDING", "",
            {"refused ILLEGAL_TRANSITION": "WPMAUDQRLBGSFT", "replayed ALREADY_SO": "O"}),
        Row("Override to TRANSFERRED", "",
            {"refused ILLEGAL_TRANSITION": "WPMAUDQRLBGOSF", "replayed ALREADY_SO": "T"}),
        Row("Override to BREACHED", "Name, reason, evidence; made, and no release of it that may have acted.",
            {"refused ILLEGAL_TRANSITION": "WPDRSFT", "BREACHED": "MAUQLO", "replayed ALREADY_SO": "BG"}),
        Row("Override to RECONCILIATION_REQUIRED", "Name, reason, evidence.",
            {"refused ILLEGAL_TRANSITION": "WPSFT", "RECONCILIATION_REQUIRED": "MAUDLBGO",
             "replayed ALREADY_SO": "QR"}),
        Row("Override to UNKNOWN", "", {"refused ILLEGAL_TRANSITION": "WPMAQRLBGOSFT", "replayed ALREADY_SO": "UD"}),
        Row("Override, without evidence", "", {"refused NO_EVIDENCE": _ALL}),
    ),
    "What its operations do": (
        Row("Commit of what makes it", "A permit of that attempt; it has still to be seen, where its type says so.",
            {"refused NO_PERMIT UNKNOWN": "WP", "replayed ALREADY_SO": "MAUQRLBGOSFT", "PROPOSED": "D"}),
        Row("Abort of what makes it, with proof", "A proof of absence; against a Commit it only opens the question.",
            {"RELEASED": "WPD", "refused CONFLICTING_OUTCOME UNKNOWN": "M",
             "refused CONFLICTING_OUTCOME RECONCILIATION_REQUIRED": "AULBGO", "refused CONFLICTING_OUTCOME": "QRST",
             "replayed ALREADY_SO": "F"}),
        Row("InDoubt of what makes it", "Nothing: not knowing needs no proof.",
            {"UNKNOWN": "WP", "replayed ALREADY_RESOLVED": "MAUQRLBGOSFT", "replayed IN_DOUBT_PENDING": "D"}),
        Row("Commit of its release", "A permit; that it is gone has still to be seen, where its type says so.",
            {"refused NOT_DISPATCHED": _NO_RELEASE, "RELEASE_PENDING": "R", "stays": "LG",
             "replayed ALREADY_SO": "F"}),
        Row("Abort of its release, with proof", "A proof of absence; it is tried again, with a longer pause each time.",
            {"refused NOT_DISPATCHED": _NO_RELEASE, "RELEASE_PENDING": "R", "stays": "LG",
             "refused CONFLICTING_OUTCOME": "F"}),
        Row("InDoubt of its release", "Nothing.",
            {"refused NOT_DISPATCHED": _NO_RELEASE, "replayed IN_DOUBT_PENDING": "R",
             "RECONCILIATION_REQUIRED": "LG", "replayed ALREADY_RESOLVED": "F"}),
    ),
    "What time does": (
        Row("its own deadline passes", "The gate's clock, past the deadline that its row names.",
            {"RELEASED": "W", "refused ALREADY_RESOLVED": "PSFT", "RECONCILIATION_REQUIRED": "M", "UNKNOWN": "A",
             "stays": "UDQRBG", "BREACHED": "L", "ACTIVE": "O"}),
        Row("a deadline that it does not wait for", "", {"refused ALREADY_RESOLVED": _ALL}),
    ),
    "What a change of ground does": (
        Row("CancelIntent", "For a releasable one; others by their class.",
            {"RELEASED": "WP", "RELEASE_PENDING": "MAUQB", "stays": "DRLGOSFT"}),
        Row("DeclareIntent, its goal gone", "As for a cancel.",
            {"RELEASED": "WP", "RELEASE_PENDING": "MAUQB", "stays": "DRLGOSFT"}),
        Row("DeclareIntent, its goal changed", "It waits for a plan that takes it up (REVALIDATE).",
            {"RELEASED": "WP", "stays": "MAUDQRLBGOSFT"}),
        Row("DeclareIntent, its goal untouched", "KEEP.", {"RELEASED": "WP", "stays": "MAUDQRLBGOSFT"}),
        Row("Plan without it", "As for a cancel.", {"RELEASED": "WP", "RELEASE_PENDING": "MAUQB", "stays": "DRLGOSFT"}),
        Row("Plan that names it", "KEEP.", {"RELEASED": "WP", "stays": "MAUDQRLBGOSFT"}),
    ),
}  # fmt: skip
"""Every claim and event, by what kind of thing it is."""

MOVES: dict[tuple[CommitmentStatus, CommitmentStatus], str] = {
    ("PROPOSED", "PENDING_CONDITION"): "its condition is not observed yet",
    ("PENDING_CONDITION", "PROPOSED"): "its condition is observed",
    ("PENDING_CONDITION", "RELEASED"): "dropped before anything was made: asked for, not met in time, or not wanted",
    ("PENDING_CONDITION", "UNKNOWN"): "somebody may have acted without a permit",
    ("PROPOSED", "ACTIVE"): "its creation settled, and an observation of it where its type is observed",
    ("PROPOSED", "UNKNOWN"): "its creation is in doubt",
    ("PROPOSED", "RELEASED"): "no permit was issued, or a proof that it was never made",
    ("PROPOSED", "RELEASE_PENDING"): "a Release, or nobody wants it any more",
    ("PROPOSED", "RECONCILIATION_REQUIRED"): "not seen in time, seen to be missing or several, or made too late",
    ("PROPOSED", "SATISFIED"): "an Override, with evidence",
    ("PROPOSED", "BREACHED"): "an Override, with evidence",
    ("ACTIVE", "SATISFIED"): "the evidence that its type demands",
    ("ACTIVE", "RELEASE_PENDING"): "a Release, or nobody wants it any more",
    ("ACTIVE", "RELEASED"): "an Override, with evidence",
    ("ACTIVE", "BREACHED"): "its due time and grace passed, it was revoked, or it is proven to be gone",
    ("ACTIVE", "UNKNOWN"): "its time passed",
    ("ACTIVE", "RECONCILIATION_REQUIRED"): "one look did not find it, several match it, its creation is contradicted, "
    "it was not seen again in time, no machine may give it up, or somebody asked",
    ("UNKNOWN", "ACTIVE"): "an observation of it, or an Override",
    ("UNKNOWN", "PROPOSED"): "its creation settled after all; it has still to be seen",
    ("UNKNOWN", "RELEASED"): "a proof that it was never made, or an Override",
    ("UNKNOWN", "RELEASE_PENDING"): "a Release, or nobody wants it any more",
    ("UNKNOWN", "BREACHED"): "it was not there after its time, or was revoked",
    ("UNKNOWN", "SATISFIED"): "an Override, with evidence",
    ("UNKNOWN", "RECONCILIATION_REQUIRED"): "several match it, its creation is contradicted, or somebody asked",
    ("RECONCILIATION_REQUIRED", "ACTIVE"): "an observation of it, or an Override",
    ("RECONCILIATION_REQUIRED", "PROPOSED"): "its creation settled after all; it has still to be seen",
    ("RECONCILIATION_REQUIRED", "RELEASE_PENDING"): "a Release, its release turned out to be absent or done, or nobody "
    "wants it any more",
    ("RECONCILIATION_REQUIRED", "RELEASED"): "it is seen to be gone after its release, proven never made, or an "
    "Override",
    ("RECONCILIATION_REQUIRED", "BREACHED"): "it is proven to be gone, or seen though it was due and is unfulfilled",
    ("RECONCILIATION_REQUIRED", "SATISFIED"): "an Override, with evidence",
    ("RELEASE_PENDING", "RELEASED"): "it is seen to be gone, or a proof that it was never made; what is compensated, "
    "evidence of that",
    ("RELEASE_PENDING", "BREACHED"): "the deadline of its release passed; the release goes on",
    ("RELEASE_PENDING", "RECONCILIATION_REQUIRED"): "its release is in doubt, not seen, or was not approved",
    ("RELEASE_PENDING", "ACTIVE"): "an Override, while no release of it is under way",
    ("RELEASE_PENDING", "SATISFIED"): "an Override, before its release may have acted",
    ("BREACHED", "SATISFIED"): "late, the evidence that its type demands",
    ("BREACHED", "RELEASE_PENDING"): "a Release, its missed action, or nobody wants it any more",
    ("BREACHED", "RELEASED"): "it is seen to be gone after its release, or an Override",
    ("BREACHED", "ACTIVE"): "an Override: a deadline is missed once",
    ("BREACHED", "RECONCILIATION_REQUIRED"): "newer news contradicts it, or somebody asked",
    ("ACTIVE", "TRANSFER_PENDING"): "its owner asks another to take it over",
    ("BREACHED", "TRANSFER_PENDING"): "its owner asks another to take it over; the breach stays on the record",
    ("TRANSFER_PENDING", "ACTIVE"): "taken over on our books, back to its owner by its word or in time, or an Override",
    ("TRANSFER_PENDING", "BREACHED"): "the same of one that was breached before, or an Override",
    ("TRANSFER_PENDING", "TRANSFERRED"): "taken over by an owner outside our books, by acknowledgement or seen to act",
    ("TRANSFER_PENDING", "RECONCILIATION_REQUIRED"): "nobody acknowledged, and its target may have acted; it is seen "
    "to be gone or several; its creation is contradicted; or an Override",
    ("TRANSFER_PENDING", "RELEASE_PENDING"): "an Override, with evidence",
    ("TRANSFER_PENDING", "RELEASED"): "an Override, with evidence",
    ("TRANSFER_PENDING", "SATISFIED"): "an Override, with evidence",
    ("RELEASED", "RELEASE_PENDING"): "it was made after it was proven that it was not, and its type gives it back",
    ("RELEASED", "RECONCILIATION_REQUIRED"): "it was made after it was proven that it was not",
}
"""Every move from one state to another, with what it needs."""
