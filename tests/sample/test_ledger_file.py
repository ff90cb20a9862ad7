"""Holds the bank's ledger file to its word: a torn tail is cut off and said, any other damage is refused."""

from pathlib import Path

import httpx
import pytest

from joingate.sample.bank import BankProcess
from joingate.sample.core import OPENING, Bank, BankOptions
from joingate.sample.process import BankDidNotStart
from joingate.sample.store import Ledger, LedgerBusy, LedgerDamaged


@pytest.mark.parametrize("keep", [1, -1], ids=["first byte only", "all but the newline"])
def test_a_torn_last_line_is_cut_off_and_said(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        Bank(ledger, BankOptions()).perform("notify", {"text": "x"}, "k")
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole.removesuffix(last) + last[:keep])
    with Ledger(path) as ledger:
        assert ledger.repaired is not None
        assert "torn" in ledger.repaired
        bank = Bank(ledger, BankOptions())
        assert bank.by_key("k") is None
        bank.perform("notify", {"text": "x"}, "k2")
    with Ledger(path) as ledger:
        assert ledger.repaired is None
        assert [entry.seq for entry in ledger] == list(range(1, len(OPENING) + 2))


def test_a_bank_over_a_torn_ledger_says_so_in_its_health(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b'{"seq": 1, "ki')
    with BankProcess(path) as bank:
        assert "torn" in httpx.get(f"{bank.url}/health", trust_env=False).json()["repaired"]


@pytest.mark.parametrize("damage", [b"garbage\n", b"{}\n", b"[]\n", b"\n"])
def test_any_other_damage_is_refused(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(damage)
    with pytest.raises(LedgerDamaged):
        Ledger(path)
    assert path.read_bytes() == damage
    with pytest.raises(BankDidNotStart):
        BankProcess(path).start()


def test_a_missing_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with Ledger(path) as ledger:
        Bank(ledger, BankOptions())
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    with pytest.raises(LedgerDamaged):
        Ledger(path)


def test_a_ledger_has_one_bank(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger"), pytest.raises(LedgerBusy):
        Ledger(tmp_path / "ledger")
