"""What facts do to a commitment's life beside its status: dates, breach, disposition; and to conditions."""

from joingate_processors.law.state import Commitment, Condition, State, condition_key, newness
from joingate_schemas import facts as f
from joingate_schemas.record import changed


def lived(before: Commitment, fact: f.CommitmentChanged, at: int) -> dict[str, object]:
    """What a transition changes beside the status: a breach stays on the record, whatever becomes of it later."""
    breached = fact.after == "BREACHED" and before.breached_at is None
    return {
        "valid_until": before.valid_until if fact.valid_until is None else fact.valid_until,
        "breached_at": at if breached else before.breached_at,
    }


def decided(state: State, fact: f.DispositionDecided) -> None:
    """A kept commitment stands on the ground that is current now; the others keep showing what they stood on."""
    commitment, intent = state.commitments.get(fact.commitment_id), state.intents.get(fact.intent_id)
    if commitment is None:
        return
    after = changed(commitment, disposition=fact.disposition)
    if fact.disposition == "KEEP" and intent is not None:
        after = changed(after, intent_version=intent.version, plan_id=intent.plan_id or "")
    state.commitments.put(fact.commitment_id, after)


def condition_observed(state: State, fact: f.ObservationRecorded, stamps: dict[str, int]) -> None:
    """What a source says of a condition counts until it says something newer, also for what is planned later."""
    key = condition_key(fact.intent_id, fact.subject_id)
    known = state.conditions.get(key)
    news = {} if known is None else known.news
    if newness(stamps, news) >= 0:
        row = Condition(intent_id=fact.intent_id, condition=fact.subject_id, finding=fact.finding,
                        news=latest_news(news, stamps))  # fmt: skip
        state.conditions.put(key, row)


def latest_news(news: dict[str, int], stamps: dict[str, int]) -> dict[str, int]:
    """`news` with `stamps` added: of each, the latest."""
    return news if not stamps else {**news, **{name: max(at, news.get(name, at)) for name, at in stamps.items()}}
