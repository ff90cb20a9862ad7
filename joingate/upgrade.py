"""The room of `upgrade-check`: what is open in a ledger, held against a catalogue that is to come.

It folds the ledger itself, by the gate's own rules, and not the projections: the ledger has every catalogue that was in
force, is there when nothing else runs, and gives the answer that the gate will come to when it starts. Reads only.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from joingate.faults import MALFORMED, FaceError
from joingate.ledger import LedgerReader
from joingate.settings import Settings
from joingate_processors.law.evolve import evolve
from joingate_processors.law.judge import fold
from joingate_processors.law.memory import MemoryState
from joingate_processors.law.protocols import catalogue_of
from joingate_processors.law.state import Header
from joingate_processors.upgrade import Concern, Report, compare
from joingate_schemas.catalogue import Catalogue
from joingate_schemas.codec import UnknownFact
from joingate_schemas.facts import FACT_TYPES, AnyFact, CatalogueLoaded
from joingate_schemas.record import changed

_HEX = {"held_claim", "catalogue"}
_UNREAD = Concern(
    "UNDISCHARGEABLE", "this release can't read it, so that what follows from it is not known",
    "run the release that wrote it, or a newer one, until what it is about is discharged",
)  # fmt: skip


def check_live(settings: Settings, new: Catalogue) -> Report:
    """What `new` means for what is open in a live ledger, read to its end. Raises FaceError when it can't be read."""
    states, report = dict[int, MemoryState](), Report()
    with LedgerReader(settings) as ledger:
        for entry in ledger.to_end():
            state = states.setdefault(entry.partition, MemoryState())
            decision = entry.decision
            unread = [fact for fact in decision.facts if isinstance(fact, UnknownFact)]
            for fact in unread:
                report.add(f"facts of the type {fact.name}", f"{entry.partition}/{decision.seq}", [_UNREAD])
            if unread:
                decision = changed(decision, facts=[one for one in decision.facts if one not in unread])
            fold(state, decision, entry.digest)
    for state in states.values():
        _compare(state, new, report)
    return report


def check_files(files: Iterable[Path], new: Catalogue, former: Catalogue | None) -> Report:
    """What `new` means for what is open in these ledgers, each a partition as `replay --ledger` writes it.

    Such a file names catalogues by their digests; `former` is the one that was in force at its end. Raises FaceError.
    """
    report = Report()
    for file in files:
        state = MemoryState()
        state.header.put("", Header())
        for number, line in enumerate(_lines(file), 1):
            where = f"{file}:{number}"
            for fact in line["facts"]:
                made = _fact(fact, where, former)
                if made is None:
                    report.add(f"facts of the type {fact['type']}", where, [_UNREAD])
                else:
                    evolve(state, made, int(line["decided_at"]))
        _compare(state, new, report)
    return report


def _compare(state: MemoryState, new: Catalogue, report: Report) -> None:
    header = state.header.get("")
    known = None if header is None else catalogue_of(state, header.catalogue_digest)
    compare(state, new if known is None else known, new, report)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FaceError(f"The file {file} can't be read: {why}.", MALFORMED) from error
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found = json.loads(line)
            seq, at, facts = found["seq"], found["decided_at"], found["facts"]
        except (ValueError, LookupError, TypeError) as error:
            raise _no_ledger(file, number) from error
        if not (isinstance(seq, int) and isinstance(at, int) and isinstance(facts, list)):
            raise _no_ledger(file, number)
        if seq != number:
            raise FaceError(
                f"{file}:{number}: this is the decision {seq}, and {number} should be here: write one partition from "
                "its first record, with `joingate replay --ledger --partition N`.", MALFORMED,
            )  # fmt: skip
        yield found


def _no_ledger(file: Path, number: int) -> FaceError:
    return FaceError(
        f"{file}:{number}: this is no decision: `joingate replay --ledger --partition N` writes a file of them.",
        MALFORMED,
    )


def _fact(told: dict[str, Any], where: str, former: Catalogue | None) -> AnyFact | None:
    """The fact as the law has it; None if this release knows none of that type."""
    cls = FACT_TYPES.get(str(told.get("type")))
    if cls is None:
        return None
    values = {name: value for name, value in told.items() if name in {one.name for one in fields(cls)}}
    if cls is CatalogueLoaded and "catalogue" not in values:
        values["catalogue"] = b"{}" if former is None or former.digest != told.get("digest") else former.source
    missing = [one.name for one in fields(cls) if one.name not in values and one.default is MISSING]
    if missing:
        raise FaceError(f"{where}: the fact {cls.__name__} has no {', '.join(missing)}: the file was cut.", MALFORMED)
    try:
        values |= {name: bytes.fromhex(values[name]) for name in _HEX if isinstance(values.get(name), str)}
    except ValueError as error:
        raise FaceError(f"{where}: {error}: bytes are told as hex digits.", MALFORMED) from error
    made: AnyFact = cls(**values)
    return made
