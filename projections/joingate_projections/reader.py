"""The read side: one set of questions about the projections, asked of a store on this machine or of one over HTTP.

Every answer is a plain dictionary, the same from both, and says in `position` up to which seq of each partition it
holds. Nothing here writes.
"""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

from joingate_projections.declared import latest_catalogue, signatures_of
from joingate_projections.errors import BadQuestion, NotFound, ReadError, Unreachable
from joingate_projections.incidents import line_of
from joingate_projections.paging import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    SCANNED_MAX,
    Filters,
    check_limit,
    cursor_of,
    place_after,
    wanted,
)
from joingate_projections.questions import QUESTIONS, Asked
from joingate_projections.store import Position, ProjectionStore, View
from joingate_projections.tables import TABLES, Row, decision_key, joined
from joingate_schemas.reasons import REASONS

LEDGER = "ledger"
HEARTBEAT_MS_MAX = 15_000
"""How long a projector may be silent before health says that it is gone."""
# What else is known by an id: the fields of each table that may hold it.
_KNOWN_BY: dict[str, tuple[str, ...]] = {
    "goals": ("intent_id", "goal_id"),
    "plans": ("intent_id", "plan_id"),
    "steps": ("step_id", "operation_id"),
    "operations": ("intent_id", "commitment_id", "compensates", "external_id"),
    "commitments": ("intent_id", "operation_id", "resource_refs", "owner_id"),
    "orphans": ("intent_id", "subject_id"),
    "alerts": ("intent_id", "operation_id"),
    "in_doubt": ("intent_id", "subject_id"),
    "resources": ("resource_ref", "operation_id", "intent_id"),
    "quarantine": ("scope",),
    "observations": ("subject_id",),
    "owners": ("owner_id",),
    "keys": ("key_id", "holder"),
    "catalogues": ("digest",),
}


class Reader(Protocol):
    """The questions. Each raises ReadError with a sentence."""

    def page(
        self,
        table: str,
        filters: Filters = (),
        *,
        limit: int = LIMIT_DEFAULT,
        cursor: str | None = None,
        order: str | None = None,
        newest: bool = False,
    ) -> Row:
        """Rows of a table that fit every (field, value): `rows`, `next` (a cursor, or None), `position`."""
        ...

    def one(self, table: str, key: str) -> Row:
        """One row by its id: `row`, `position`."""
        ...

    def explain(self, subject_id: str, *, limit: int = LIMIT_DEFAULT, cursor: str | None = None) -> Row:
        """Everything known about an id, and the decisions that mention it in order: `known`, `decisions`, `next`."""
        ...

    def ask(self, question: str, subject: str = "", options: Filters = ()) -> Row:
        """The answer to one of `QUESTIONS`, with `position`."""
        ...

    def summary(self) -> Row:
        """Counts by table and word, verdicts and reasons, open incidents, positions."""
        ...

    def positions(self) -> Row:
        """How far each stream is folded, partition by partition, and what the projector says of itself."""
        ...

    def health(self) -> Row:
        """`healthy`, and a sentence on everything that is wrong."""
        ...


def now_ms() -> int:
    """The present, for ages; no row depends on it."""
    return time.time_ns() // 1_000_000


class StoreReader:
    """The questions, answered from a store on this machine, the writer's own or one opened beside it."""

    def __init__(self, store: ProjectionStore, clock: Callable[[], int] = now_ms) -> None:
        self._store = store
        self._clock = clock

    def page(
        self,
        table: str,
        filters: Filters = (),
        *,
        limit: int = LIMIT_DEFAULT,
        cursor: str | None = None,
        order: str | None = None,
        newest: bool = False,
    ) -> Row:
        """See `Reader`. Raises BadQuestion."""
        asked = wanted(table, filters, order, limit, newest)
        after = place_after(cursor)
        rows: list[Row] = []
        last: tuple[str, str] | None = None
        with self._store.view() as view:
            position = _ledger(view)
            for scanned, (value, key, row) in enumerate(asked.walk(view, after)):
                if len(rows) == limit or scanned == SCANNED_MAX:
                    break
                last = (value, key)
                if asked.fitting(row):
                    rows.append(self._told(view, table, key, row))
            else:
                last = None
        return {"rows": rows, "next": cursor_of(last), "position": position}

    def one(self, table: str, key: str) -> Row:
        """See `Reader`. Raises NotFound."""
        with self._store.view() as view:
            row = view.get(table, key)
            if row is None:
                raise NotFound(f"Nothing in {table} has the id {key!r}. It may not be decided yet, or the id is wrong.")
            return {"row": self._told(view, table, key, row), "position": _ledger(view)}

    def explain(self, subject_id: str, *, limit: int = LIMIT_DEFAULT, cursor: str | None = None) -> Row:
        """See `Reader`. Raises NotFound and BadQuestion."""
        after = place_after(cursor)
        check_limit(limit)
        with self._store.view() as view:
            known = {table: rows for table in TABLES if (rows := self._known(view, table, subject_id))}
            keys: set[str] = set()
            for mention in _mentions_of(subject_id, known):
                found = view.find("decisions", "mentions", mention, (mention, after[1]) if after else None)
                keys.update(key for _, (_, key) in zip(range(limit + 1), found, strict=False))
            ordered = sorted(keys)
            decisions = [row for key in ordered[:limit] if (row := view.get("decisions", key)) is not None]
            position = _ledger(view)
        if not known and not decisions:
            raise NotFound(
                f"Nothing is known by the id {subject_id!r}: no intent, plan, step, operation, commitment, orphan, "
                "quarantined record, claim or external id. It may not be decided yet, or the id is wrong."
            )
        return {
            "id": subject_id,
            "known": known,
            "decisions": [_with_advice(row) for row in decisions],
            "next": cursor_of(("", ordered[limit - 1])) if len(ordered) > limit else None,
            "position": position,
        }

    def ask(self, question: str, subject: str = "", options: Filters = ()) -> Row:
        """See `Reader`. Raises BadQuestion and NotFound."""
        asked = Asked(subject, _options(question, options), self._clock())
        with self._store.view() as view:
            answer = QUESTIONS[question].answer(view, asked)
            position = _ledger(view)
        if answer is None:
            raise NotFound(QUESTIONS[question].missing.format(subject=subject))
        return {**answer, "position": position}

    def _known(self, view: View, table: str, subject_id: str) -> list[Row]:
        """The rows of a table that are, or belong to, the id; at most `LIMIT_MAX`."""
        if TABLES[table].hidden or table == "decisions":
            return []
        keys = dict.fromkeys([subject_id])
        for field in _KNOWN_BY.get(table, ()):
            found = view.find(table, field, subject_id)
            keys |= dict.fromkeys(key for _, (_, key) in zip(range(LIMIT_MAX), found, strict=False))
        pairs = [(key, view.get(table, key)) for key in list(keys)[:LIMIT_MAX]]
        return [self._told(view, table, key, row) for key, row in pairs if row is not None]

    def _told(self, view: View, table: str, key: str, row: Row) -> Row:
        """A row as it is answered: with ages by the clock, and a quarantined record's bytes beside it."""
        if table in ("orphans", "in_doubt"):
            now = self._clock()
            deadline_at = row.get("deadline_at")
            overdue = deadline_at is not None and deadline_at < now
            told = {**row, "age_ms": max(0, now - row["since"]), "overdue": overdue}
            if table == "orphans":
                told["lineage"] = line_of(view, row["subject_kind"], row["subject_id"], row["intent_id"])
            return told
        if table == "quarantine":
            return {**row, "record": view.get("quarantine_records", key)}
        return row

    def since(self, position: dict[int, int], limit: int = LIMIT_DEFAULT) -> list[Row]:
        """Decisions behind `position` (partition: seq), partition by partition in ledger order; for live updates."""
        rows: list[Row] = []
        with self._store.view() as view:
            for partition in sorted({one.partition for one in view.positions() if one.stream == LEDGER}):
                start = decision_key(partition, position.get(partition, 0))
                end = decision_key(partition + 1, 0)
                for key, row in view.rows("decisions", after=start):
                    if key >= end or len(rows) >= limit:
                        break
                    rows.append(row)
        return rows

    def position(self) -> dict[int, int]:
        """The seq up to which each partition is folded."""
        with self._store.view() as view:
            return {one.partition: one.seq for one in view.positions() if one.stream == LEDGER}

    def summary(self) -> Row:
        """See `Reader`."""
        with self._store.view() as view:
            tables = {
                name: {field: view.counts(name, field) for field in table.counted}
                for name, table in TABLES.items()
                if table.counted
            }
            oldest = {name: next(view.find(name, "since", None), None) for name in ("orphans", "in_doubt")}
            beside = {about: view.counts("", about) for about in ("unknown_facts", "unknown_claims", "clock_skews")}
            position, catalogue = _ledger(view), latest_catalogue(view)
        now = self._clock()
        ages = {name: max(0, now - int(found[0])) if found else None for name, found in oldest.items()}
        return {
            "tables": tables, "oldest_ms": ages, **beside, "signatures": signatures_of(catalogue), "position": position,
        }  # fmt: skip

    def positions(self) -> Row:
        """See `Reader`."""
        with self._store.view() as view:
            streams: dict[str, dict[str, Row]] = {}
            for one in view.positions():
                streams.setdefault(one.stream, {})[str(one.partition)] = _position_row(one)
            return {"streams": streams, "projector": view.statuses(), "position": _ledger(view)}

    def health(self) -> Row:
        """See `Reader`. A projector that is silent, or has stopped a partition, is what is wrong."""
        with self._store.view() as view:
            statuses, position = view.statuses(), _ledger(view)
        problems = [
            str(status["sentence"]) for name, status in sorted(statuses.items()) if status.get("state") == "STOPPED"
        ]
        beat = statuses.get("projector")
        silent_ms = self._clock() - beat["at"] if beat else None
        if beat and beat["sentence"]:
            problems.append(str(beat["sentence"]))
        if silent_ms is None:
            problems.append("No projector has written these projections yet. Start `joingate project`.")
        elif silent_ms > HEARTBEAT_MS_MAX:
            problems.append(
                f"The projector was last heard of {silent_ms // 1_000} s ago. See whether `joingate project` runs."
            )
        return {"healthy": not problems, "problems": problems, "position": position}


class HttpReader:
    """The questions, asked of the API at `base_url`; same answers, same errors."""

    def __init__(self, base_url: str, timeout_s: float = 10.0) -> None:
        self._base = base_url.rstrip("/")
        self._timeout_s = timeout_s

    def page(
        self,
        table: str,
        filters: Filters = (),
        *,
        limit: int = LIMIT_DEFAULT,
        cursor: str | None = None,
        order: str | None = None,
        newest: bool = False,
    ) -> Row:
        """See `Reader`."""
        query: list[tuple[str, str]] = [*filters, ("limit", str(limit))]
        query += [(name, value) for name, value in (("cursor", cursor), ("order", order)) if value is not None]
        query += [("newest", "true")] if newest else []
        return self._get(f"/v1/{table.replace('_', '-')}", query)

    def one(self, table: str, key: str) -> Row:
        """See `Reader`."""
        return self._get(f"/v1/{table.replace('_', '-')}/{quote(key, safe='')}")

    def explain(self, subject_id: str, *, limit: int = LIMIT_DEFAULT, cursor: str | None = None) -> Row:
        """See `Reader`."""
        query = [("limit", str(limit)), *([("cursor", cursor)] if cursor is not None else [])]
        return self._get(f"/v1/explain/{quote(subject_id, safe='')}", query)

    def ask(self, question: str, subject: str = "", options: Filters = ()) -> Row:
        """See `Reader`."""
        path = f"/v1/{question}" + (f"/{quote(subject, safe='')}" if subject else "")
        return self._get(path, options)

    def summary(self) -> Row:
        """See `Reader`."""
        return self._get("/v1/summary")

    def positions(self) -> Row:
        """See `Reader`."""
        return self._get("/v1/positions")

    def health(self) -> Row:
        """See `Reader`. An unhealthy answer is an answer."""
        return self._get("/v1/health", fine=(503,))

    def _get(self, path: str, query: Filters = (), fine: tuple[int, ...] = ()) -> Row:
        url = self._base + path + ("?" + urlencode(list(query)) if query else "")
        try:
            with urlopen(url, timeout=self._timeout_s) as answer:
                row: Row = json.load(answer)
                return row
        except HTTPError as error:
            body = error.read()
            told = _json(body)
            if error.code in fine and told is not None:
                return told
            raise _refused(url, error.code, body) from error
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise Unreachable(
                f"The API at {self._base} does not answer: {reason}. See that `joingate serve` runs."
            ) from error


def _refused(url: str, code: int, body: bytes) -> ReadError:
    row = _json(body) or {}
    sentence = row.get("error")
    if not isinstance(sentence, str):
        return Unreachable(f"{url} answered {code}, and not as the API would. See that the address is right.")
    if code == 404:
        return NotFound(sentence)
    return BadQuestion(sentence) if code < 500 else Unreachable(sentence)


def _json(body: bytes) -> Row | None:
    try:
        row = json.loads(body)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def lines_of(explained: Row) -> Iterator[str]:
    """An explanation as sentences for a terminal: what is known, then what was decided, in order."""
    for table, rows in explained["known"].items():
        for row in rows:
            name = row.get(_NAMED_BY.get(table, "subject_id"), "")
            word = row.get("shown") or row.get("status") or row.get("kind") or row.get("finding") or ""
            yield f"{table}: {name} {word}".rstrip()
            if table == "intents":
                yield from _archiving(row)
    subjects = {row[_NAMED_BY[table]]: row for table in _SUBJECTS for row in explained["known"].get(table, [])}
    for row in explained["decisions"]:
        who = f" by {row['principal']}" if row["principal"] else ""
        facts = ", ".join(fact["fact"] for fact in row["facts"])
        about = _about(row, subjects)
        verdict = row["verdict"] if row["reason"] == "OK" else f"{row['verdict']} {row['reason']}"
        # What OK means need not be said on each line; what any other reason means does.
        said = row["detail"] or ("" if row["reason"] == "OK" else row["meaning"])
        yield (
            f"{row['partition']}:{row['seq']} {_time(row['decided_at'])} {row['claim_type']}{who}"
            + (f" of {about}" if about else "")
            + f": {verdict}"
            + (f". {said}" if said else "")
            + (f" → {facts}" if facts else "")
        )


def _archiving(row: Row) -> Iterator[str]:
    """Whether the gate has put the intent away, or until when it keeps it; nothing while that is no question."""
    if row["archived_at"] is not None:
        told = f"archived: {_time(row['archived_at'])}, with {row['archived_rows']} rows"
        yield f"{told}; nothing about it takes effect any more (INTENT_ARCHIVED)"
    elif row["archive_due"] is not None:
        yield f"kept: at least until {_time(row['archive_due'])}, since {row['archive_cause']}"
    elif row["archive_cause"]:
        yield f"kept: {row['archive_cause']}"


_SUBJECTS = ("operations", "commitments")
_OF_INTENTS = frozenset({"DeclareIntent", "Close", "CancelIntent"})
"""Claims about a whole intent, whose facts may touch many a step."""


def _time(ms: int) -> str:
    stamp = datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
    return stamp.replace("+00:00", "Z")


def _about(row: Row, subjects: dict[str, Row]) -> str:
    """What a decision is about, in the words of those who planned it: its facts say, or the row of its subject."""
    if row["claim_type"] in _OF_INTENTS:
        return str(row["intent_id"])
    told = [one for one in (*row["facts"], row["asked"], subjects.get(row["subject_id"])) if one]
    words = []
    for name, word in (("plan_id", "plan"), ("step_id", "step"), ("action", ""), ("business_key", "on"),
                       ("obligation_type", ""), ("attempt", "attempt")):  # fmt: skip
        value = next((one[name] for one in told if one.get(name)), None)
        if value is not None:
            words.append(f"{word} {value}".strip())
    return ", ".join(words) or next((str(one["subject_id"]) for one in (row, *told) if one.get("subject_id")), "")


_NAMED_BY = {
    "intents": "intent_id",
    "goals": "goal_id",
    "plans": "plan_id",
    "steps": "step_id",
    "operations": "operation_id",
    "commitments": "commitment_id",
    "orphans": "orphan_id",
    "resources": "resource_ref",
    "quarantine": "quarantine_id",
    "owners": "owner_id",
    "keys": "key_id",
    "catalogues": "digest",
}


def _with_advice(row: Row) -> Row:
    reason = REASONS.get(row["reason"], REASONS["UNKNOWN"])
    return {**row, "meaning": reason.meaning, "advice": reason.advice, "retry": reason.retry.value}


def _mentions_of(subject_id: str, known: dict[str, list[Row]]) -> list[str]:
    """Under which names decisions mention the subject. Plans and steps have ids only within their intent."""
    if "intents" in known:
        return [subject_id]  # Whatever is about its plans and steps is about the intent.
    plans = [joined(row["intent_id"], row["plan_id"]) for row in known.get("plans", ())]
    steps = [joined(row["intent_id"], row["plan_id"], row["step_id"]) for row in known.get("steps", ())]
    return [subject_id, *plans, *steps]


def _ledger(view: View) -> dict[str, int]:
    return {str(one.partition): one.seq for one in view.positions() if one.stream == LEDGER}


def _position_row(one: Position) -> Row:
    return {"seq": one.seq, "offset": one.offset, "epoch": one.epoch, "digest": one.digest}


def _options(question: str, given: Filters) -> dict[str, str]:
    """The options of a question, checked."""
    known = QUESTIONS[question].options
    options = dict(given)
    for name, value in options.items():
        if name not in known:
            fine = ", ".join(known) or "none"
            raise BadQuestion(f"{question} has no option {name!r}. It has {fine}.")
        one = known[name]
        if one.kind == "number" and not (value.isascii() and value.isdigit() and 1 <= int(value) <= one.most):
            raise BadQuestion(f"The option {name} is a whole number from 1 to {one.most}; {value!r} is not.")
        if one.of and value not in one.of:
            raise BadQuestion(f"The option {name} is one of {', '.join(one.of)}; {value!r} is not.")
    return options
