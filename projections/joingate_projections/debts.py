"""What debts and backlogs there are, beside the limits that hold for them: what a planner is refused by, in advance."""

from joingate_projections.declared import catalogue_on
from joingate_projections.store import View, index_value
from joingate_projections.tables import Row, joined
from joingate_projections.tables.debts import sum_in
from joingate_schemas.catalogue import Catalogue, Limit, LimitScope
from joingate_schemas.debt import Weighed, debt, limit_for, tenant_of

LISTED_MAX = 100
"""How many debts of a kind are listed, and how many partitions of one principal."""
SCANNED_MAX = 2_000
_UNLIMITED = Limit("", "INTENT")


def debts_of(view: View, intent_id: str, partition: int, principal: str | None, now: int) -> list[Row]:
    """The debts that a new obligation of the intent would add to; a principal's on each partition where it has one."""
    catalogue = catalogue_on(view, partition)
    found = [
        _standing("INTENT", intent_id, _row(view, "INTENT", intent_id, partition), partition, catalogue, now),
        _standing("TENANT", tenant_of(intent_id), _row(view, "TENANT", tenant_of(intent_id), partition), partition,
                  catalogue, now),
    ]  # fmt: skip
    if principal:
        rows = {row["partition"]: row for row in _all_of(view, "PRINCIPAL", principal)}
        for one in sorted({partition, *rows}):
            found.append(_standing("PRINCIPAL", principal, rows.get(one), one, catalogue_on(view, one), now))
    return found


def levels_of(view: View, now: int) -> Row:
    """The whole of what is owed, unresolved and waiting for people, and the principals and tenants that owe most."""
    tenants, principals = (_ranked(view, of, now) for of in ("TENANT", "PRINCIPAL"))
    refused = view.counts("decisions", "reason")
    return {
        "debt": sum(row["debt"] for row in tenants),
        "commitments": sum(row["commitments"] for row in tenants),
        "doubts": sum(row["doubts"] for row in tenants),
        "reviews": sum(row["reviews"] for row in tenants),
        "tenants": tenants[:LISTED_MAX],
        "principals": principals[:LISTED_MAX],
        "refused": {name: refused.get(name, 0) for name in ("COMMITMENT_DEBT", "BUDGET_SPENT")},
    }


def _row(view: View, of: str, subject: str, partition: int) -> Row | None:
    return view.get("debts", joined(of, subject, f"{partition:05d}"))


def _all_of(view: View, of: str, subject: str) -> list[Row]:
    found = zip(range(LISTED_MAX), view.find("debts", "who", index_value(joined(of, subject))), strict=False)
    return [row for _, (_, key) in found if (row := view.get("debts", key)) is not None]


def _ranked(view: View, of: LimitScope, now: int) -> list[Row]:
    """The debts of a kind, the largest first; at most `SCANNED_MAX` are looked at."""
    found = zip(range(SCANNED_MAX), view.find("debts", "of", index_value(of)), strict=False)
    rows = [row for _, (_, key) in found if (row := view.get("debts", key)) is not None]
    catalogues = {one: catalogue_on(view, one) for one in {row["partition"] for row in rows}}
    standings = [
        _standing(of, row["subject"], row, row["partition"], catalogues[row["partition"]], now) for row in rows
    ]
    return sorted(standings, key=lambda one: (-one["debt"], one["subject"], one["partition"]))


def _standing(
    of: LimitScope, subject: str, row: Row | None, partition: int, catalogue: Catalogue | None, now: int
) -> Row:
    """A debt with its limit (None: there is none), and whether a further obligation would be refused for sure."""
    limit = limit_for(catalogue, of, subject) if catalogue is not None else None
    owed = debt(Weighed() if row is None else sum_in(row), limit or _UNLIMITED, now)
    counts = {name: 0 if row is None else row[name] for name in ("commitments", "doubts", "reviews")}
    most = None if limit is None else {"debt": limit.debt, "doubts": limit.doubts, "reviews": limit.reviews}
    reached = most is not None and any(
        bound is not None and {"debt": owed, **counts}[name] >= bound for name, bound in most.items()
    )
    return {"of": of, "subject": subject, "partition": partition, "debt": round(owed, 3), **counts, "limit": most,
            "reached": reached}  # fmt: skip
