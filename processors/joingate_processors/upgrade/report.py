"""What an upgrade means for what is open, counted: one line for all that it means the same for."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from joingate_schemas.catalogue import Catalogue

Outcome = Literal["UNDISCHARGEABLE", "CHANGES", "FINE"]
"""UNDISCHARGEABLE: no machine can end it any more. CHANGES: it ends by other rules than before. FINE: as before."""

IDS_SHOWN = 5
_ORDER: tuple[Outcome, ...] = ("UNDISCHARGEABLE", "CHANGES", "FINE")
_LINES_TOLD = 3


@dataclass(frozen=True)
class Concern:
    """What an upgrade means for one open thing: why it is more than fine, and what can be done about it."""

    outcome: Outcome
    why: str
    advice: str


@dataclass
class Line:
    """How many open things of one sort (`what`) share an outcome and its reason; `ids` are the first of them."""

    outcome: Outcome
    what: str
    why: str
    advice: str
    count: int = 0
    ids: list[str] = field(default_factory=list)

    def sentence(self) -> str:
        """The line as people read it."""
        more = ", …" if self.count > len(self.ids) else ""
        return f"{self.count} {self.what} ({', '.join(self.ids)}{more}): {self.why}"


class Report:
    """Adds up what an upgrade means, over any number of partitions."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, ...], Line] = {}

    def add(self, what: str, subject_id: str, concerns: Iterable[Concern]) -> None:
        """One open thing of the sort `what`; without concerns it is fine. FINE beside others goes without saying."""
        found = list(concerns)
        graver = [one for one in found if one.outcome != "FINE"]
        for one in graver or found or [Concern("FINE", "served as before", "")]:
            key = (one.outcome, what, one.why, one.advice)
            line = self._lines.setdefault(key, Line(one.outcome, what, one.why, one.advice))
            line.count += 1
            if len(line.ids) < IDS_SHOWN:
                line.ids.append(subject_id)

    def lines(self, outcome: Outcome | None = None) -> list[Line]:
        """The lines, gravest first and most things first; of one outcome, if it is named."""
        found = [line for line in self._lines.values() if outcome in (None, line.outcome)]
        return sorted(found, key=lambda line: (_ORDER.index(line.outcome), -line.count, line.what, line.why))

    @property
    def outcome(self) -> Outcome:
        """The gravest that there is."""
        return next((one for one in _ORDER if self.lines(one)), "FINE")

    def rows(self) -> list[dict[str, Any]]:
        """The lines as JSON has them."""
        return [asdict(line) for line in self.lines()]


def refusal(report: Report, former: Catalogue, new: Catalogue) -> str:
    """Why a gate may not start with `new`, and what to do: each line of what can't be discharged, in sentences."""
    return " ".join(_refusal(report.lines("UNDISCHARGEABLE"), former, new))


def _refusal(grave: list[Line], former: Catalogue, new: Catalogue) -> Iterator[str]:
    yield f"The catalogue {new.version} ({new.digest[:12]}) can't discharge what is open here:"
    yield "; ".join(line.sentence() for line in grave[:_LINES_TOLD]) + "."
    if len(grave) > _LINES_TOLD:
        yield f"There are {len(grave) - _LINES_TOLD} more such lines: `joingate upgrade-check` has them all."
    advice = dict.fromkeys(line.advice for line in grave[:_LINES_TOLD])
    yield f"Start the gate with the former catalogue ({former.version}, {former.digest[:12]}), or {'; '.join(advice)}."
    yield "To start all the same, say who takes it on and why: --accept-undischargeable TEXT, which is recorded."
