"""What the reconciler's tests share: requests as the gate would write them."""

from collections.abc import Callable
from typing import Any

import pytest

from joingate_schemas.decisions import InDoubtRequest


def in_doubt(**fields: Any) -> InDoubtRequest:
    """A request about operation op-1 at a bank that can be looked up, with `fields` replaced."""
    usual: dict[str, Any] = {
        "kind": "RESOLVE_OPERATION",
        "subject_kind": "OPERATION",
        "subject_id": "op-1",
        "intent_id": "acme/fee/1",
        "operation_id": "op-1",
        "action": "reverse_fee",
        "business_key": "txn-77120",
        "downstream": "bank",
        "capabilities": ["LOOKUP"],
        "attempt": 1,
        "cause": "SILENCE",
        "external_ids": [],
        "resource_refs": [],
        "since": 1_000_000,
        "askable_from": 1_010_000,
        "deadline_at": None,
        "key_until": None,
        "fresh": True,
        "partition": 0,
        "ledger_seq": 1,
        "epoch": 1,
    }
    return InDoubtRequest(**{**usual, **fields})


@pytest.fixture
def make_request() -> Callable[..., InDoubtRequest]:
    """`in_doubt`, for tests that need no broker."""
    return in_doubt
