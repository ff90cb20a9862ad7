"""Keys on the read side: one row for each partition, whatever order their facts come in."""

from joingate_projections.tables import At, MemoryRows
from joingate_projections.tables.keys import ended, registered
from joingate_schemas.facts import KeyEnded, KeyRegistered

MADE = KeyRegistered(key_id="k", holder="ann", public_key=b"\1" * 32, by="root", reason="new")


def end(ends_at: int, how: str = "REVOKED") -> KeyEnded:
    return KeyEnded(key_id="k", holder="ann", ends_at=ends_at, end=how, by="root", reason="lost")  # type: ignore[arg-type]


def test_each_partition_has_a_row_of_its_own() -> None:
    rows = MemoryRows()
    registered(rows, MADE, At(0, 1, 1_000))
    ended(rows, end(5), At(1, 1, 1_000))
    first, second = rows.tables["keys"].values()
    assert (first["partition"], first["status"], first["public_key"]) == (0, "REGISTERED", "01" * 32)
    assert (second["partition"], second["status"], second["ends_at"]) == (1, "REVOKED", 5)


def test_an_end_only_comes_closer_and_what_is_revoked_stays_so() -> None:
    rows = MemoryRows()
    registered(rows, MADE, At(0, 1, 1_000))
    for fact, status, ends_at in (
        (end(9, "REPLACED"), "REPLACED", 9), (end(7), "REVOKED", 7), (end(8, "REPLACED"), "REVOKED", 7),
    ):  # fmt: skip
        ended(rows, fact, At(0, 2, 2_000))
        (row,) = rows.tables["keys"].values()
        assert (row["status"], row["ends_at"]) == (status, ends_at)
    registered(rows, MADE, At(0, 3, 3_000))
    (row,) = rows.tables["keys"].values()
    assert row["status"] == "REVOKED", "registering what is there changes nothing"
