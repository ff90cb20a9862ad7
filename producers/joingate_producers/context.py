"""The room where a planner learns what there is to know before it plans: one question to the read side, over HTTP."""

import json
from typing import Any, TypedDict, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

from joingate_producers.errors import NotKnown, Unreachable
from joingate_producers.verdict import Verdict

Row = dict[str, Any]


class PlannerContext(TypedDict):
    """The answer. Times are milliseconds since the epoch, UTC; `shown` is the word that people see.

    `goals`: states wanted, each with what was observed of it. `plan`: the one in force with its steps, or None.
    `commitments`: what is in force or on its way, to be used and not made anew. `operations`: what is under way.
    `resources`: what is `declared` scarce and what is `held`. `budgets`: `granted`, `spent`, `left`. `authority`: what
    this principal is limited to. `competence`: each action that it may ask for, and how those have `fared`.
    `position`: partition → the ledger seq up to which all of it holds.
    """

    intent: Row
    goals: list[Row]
    plan: Row | None
    commitments: list[Row]
    operations: list[Row]
    in_doubt: list[Row]
    orphans: list[Row]
    resources: Row
    budgets: Row
    authority: Row
    competence: list[Row]
    counts: dict[str, int]
    catalogue: dict[str, str] | None
    position: dict[str, int]


def read_context(
    api_url: str, intent_id: str, principal: str, at_least: Verdict | None, timeout_s: float
) -> PlannerContext:
    """Ask the read side at `api_url`. Raises NotKnown and Unreachable."""
    query = {"principal": principal} if principal else {}
    if at_least is not None:
        query["at_least"] = f"{at_least.partition}:{at_least.seq}"
    url = f"{api_url.rstrip('/')}/v1/context/{quote(intent_id, safe='')}?{urlencode(query)}"
    try:
        with urlopen(url, timeout=timeout_s) as answer:
            return cast(PlannerContext, json.load(answer))
    except HTTPError as error:
        sentence = _sentence(error.read())
        if error.code == 404 and sentence is not None:
            raise NotKnown(sentence) from error
        raise Unreachable(
            sentence
            or f"{api_url} answered {error.code}, and not as the API would. See that JOINGATE_API_URL is right."
        ) from error
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unreachable(
            f"The API at {api_url} does not answer: {reason}. See that `joingate serve` runs, or set JOINGATE_API_URL."
        ) from error


def _sentence(body: bytes) -> str | None:
    """What the API says is wrong; None: it was not the API that spoke."""
    try:
        row = json.loads(body)
    except ValueError:
        return None
    said = row.get("error") if isinstance(row, dict) else None
    return said if isinstance(said, str) else None
