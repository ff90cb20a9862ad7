"""The commands about principals' keys: make one, let it speak, put another in its place, take it back, list them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joingate.cli.lists import milliseconds
from joingate.cli.output import Json, moment, print_json, show, table
from joingate.cli.reading import Api
from joingate.faults import FAILED, MALFORMED, FaceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from joingate_producers import Operator, PendingVerdict
    from joingate_projections.reader import HttpReader

keys = typer.Typer(
    help="Make, register, replace, revoke and list the keys by which principals are known.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Holder = Annotated[str, typer.Argument(help="The principal whose key it is, as the catalogue names it.")]
Public = Annotated[str, typer.Argument(help="The public key: 64 hex digits, as `keys new` prints it.")]
Person = Annotated[str, typer.Option("--as", help="Who says so: an operator whom the catalogue declares a registrar.")]
KeyFile = Annotated[
    Path, typer.Option("--key-file", envvar="JOINGATE_KEY_FILE", help="The file with that operator's private key.")
]
Why = Annotated[str, typer.Option("--reason", help="Why, in a sentence.")]
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.add_typer(keys, name="keys")


@keys.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="Where the private key goes: a new file, which only you may read.")],
    json: Json = False,
) -> None:
    """Make a key pair: the private key goes to a file, the public key and its id are printed."""
    from joingate_schemas.signing import KeyFileError, Signer

    signer = Signer.new()
    try:
        signer.write(file)
    except KeyFileError as error:
        raise FaceError(str(error), MALFORMED) from error
    if json:
        print_json({"key_id": signer.key_id, "public_key": signer.public_key.hex(), "file": str(file)})
    else:
        print(f"key id: {signer.key_id}\npublic key: {signer.public_key.hex()}")


@keys.command("register")
def register(
    holder: Holder, public_key: Public, person: Person, key_file: KeyFile, reason: Why = "", json: Json = False
) -> None:
    """Let one more key speak for a principal, on every partition. Exit code 1 if one of them refuses."""
    _said(person, key_file, json, lambda operator: operator.register_key(holder, _bytes(public_key), reason=reason))


@keys.command("rotate")
def rotate(
    holder: Holder,
    public_key: Public,
    replaces: Annotated[str, typer.Option("--replaces", help="The id of the key that it takes the place of.")],
    person: Person,
    key_file: KeyFile,
    overlap: Annotated[
        str, typer.Option("--overlap", help="For how long the older key is still good: 30s, 10m, 24h, 7d.")
    ] = "1h",
    reason: Why = "",
    json: Json = False,
) -> None:
    """Put a new key in the place of another, with a time in which both hold."""
    overlap_ms = _duration(overlap)
    _said(
        person, key_file, json,
        lambda operator: operator.register_key(
            holder, _bytes(public_key), replaces=replaces, overlap_ms=overlap_ms, reason=reason
        ),
    )  # fmt: skip


@keys.command("revoke")
def revoke(
    holder: Holder,
    key_id: Annotated[str, typer.Argument(help="The key's id, as `keys list` shows it.")],
    person: Person,
    key_file: KeyFile,
    since: Annotated[
        str | None, typer.Option("--from", help="From when on it is not to be trusted, such as 2026-11-30T15:00Z.")
    ] = None,
    reason: Why = "",
    json: Json = False,
) -> None:
    """Take a key back, on every partition: what it signed from then on is refused. Exit code 1 if one refuses."""
    at = milliseconds(since)
    _said(
        person, key_file, json,
        lambda operator: operator.revoke_key(
            holder, key_id, revoked_at=None if at is None else int(at), reason=reason
        ),
    )  # fmt: skip


@keys.command("list")
def list_keys(api: Api = None, json: Json = False) -> None:
    """List the keys that the catalogue declares and that were registered, and which partitions lack one."""
    from joingate.settings import find_catalogue, load_settings
    from joingate_projections.reader import HttpReader

    settings = load_settings(api_url=api)
    rows = _rows(HttpReader(settings.api_url))
    found = joined_keys(rows, find_catalogue(settings.catalogue).keys, settings.partitions)
    if json:
        for one in found:
            print_json(one)
    elif found:
        columns = ("key id", "holder", "status", "until", "where")
        show(table("", columns, [_cells(one) for one in found]))
    else:
        print("No key is declared or registered: claims of this deployment are not signed.")


def _rows(reader: "HttpReader") -> list[dict[str, Any]]:
    """Every key on every partition that a claim was about."""
    page = reader.page("keys")
    rows: list[dict[str, Any]] = page["rows"]
    while page["next"] is not None:
        page = reader.page("keys", cursor=page["next"])
        rows += page["rows"]
    return rows


def joined_keys(
    rows: list[dict[str, Any]], declared: dict[str, tuple[str, bytes]], partitions: int
) -> list[dict[str, Any]]:
    """One row a key, from one a key and partition and from what is declared; with what a partition lacks."""
    found: dict[str, dict[str, Any]] = {
        key_id: {"key_id": key_id, "holder": holder, "public_key": public.hex(), "status": "DECLARED", "ends_at": None,
                 "where": "the catalogue"}
        for key_id, (holder, public) in declared.items()
    }  # fmt: skip
    known: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        known.setdefault(row["key_id"], []).append(row)
    for key_id, some in known.items():
        ends = [row["ends_at"] for row in some if row["ends_at"] is not None]
        lacking = sorted(set(range(partitions)) - {row["partition"] for row in some})
        differ = len({(row["status"], row["ends_at"]) for row in some}) > 1
        where = "every partition"
        if lacking:
            where = f"NOT on partition {', '.join(map(str, lacking))}: say it again"
        elif differ:
            where = "partitions differ: say it again"
        last = max(some, key=lambda row: (row["status"] != "REGISTERED", row["status"] == "REVOKED"))
        found[key_id] = {
            "key_id": key_id, "holder": last["holder"],
            "public_key": last["public_key"] or found.get(key_id, {}).get("public_key", ""),
            "status": last["status"], "ends_at": min(ends, default=None), "where": where,
        }  # fmt: skip
    return sorted(found.values(), key=lambda one: (one["holder"], one["key_id"]))


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    return row["key_id"], row["holder"], row["status"], moment(row["ends_at"]), row["where"]


def _said(person: str, key_file: Path, json: bool, say: "Callable[[Operator], list[PendingVerdict]]") -> None:
    """Say it to every partition, wait for each verdict, and print them."""
    from joingate.settings import load_settings
    from joingate_producers import Operator

    settings = load_settings()
    with Operator.connect(
        bootstrap_servers=settings.bootstrap_servers,
        prefix=settings.prefix,
        registry_url=settings.registry_url,
        client=settings.client,
        principal=person,
        key_file=key_file,
        outbox=None,
    ) as operator:
        refused = _tell(say(operator), json)
    if refused:
        raise typer.Exit(FAILED)


def _tell(pending: "list[PendingVerdict]", json: bool) -> int:
    refused = 0
    for one in pending:
        verdict = one.wait()
        refused += verdict.refused
        if json:
            print_json({"partition": verdict.partition, "key_id": verdict.subject_id, "verdict": verdict.verdict,
                        "reason": verdict.reason, "detail": verdict.detail})  # fmt: skip
        else:
            said = f"partition {verdict.partition}: {verdict.verdict} {verdict.reason} {verdict.detail}"
            print(said.rstrip())
    return refused


def _bytes(public_key: str) -> bytes:
    try:
        found = bytes.fromhex(public_key)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise FaceError(
            f"{public_key!r} is no public key: 64 hex digits, as `joingate keys new` prints them.", MALFORMED
        )
    return found


def _duration(text: str) -> int:
    digits = text.rstrip("smhd")
    unit = text[len(digits) :]
    if not digits.isdecimal() or unit not in _UNITS_MS:
        raise FaceError(f"{text!r} is no duration: a whole number and a unit, as in 30s, 10m, 24h or 7d.", MALFORMED)
    return int(digits) * _UNITS_MS[unit]
