"""The commands of the agents' gateway: run it over HTTP, over stdio for one MCP client, and make tokens for it."""

import os
from pathlib import Path
from typing import Annotated

import typer

from joingate.cli.output import Json, note, print_json
from joingate.cli.serving import CatalogueName, DataDir, Host
from joingate.faults import MALFORMED, FaceError

Tokens = Annotated[Path | None, typer.Option("--tokens", help="The file of tokens [JOINGATE_GATEWAY_TOKENS].")]
Api = Annotated[str | None, typer.Option("--api", help="Where the read side answers [JOINGATE_API_URL].")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this room."""
    group = typer.Typer(help="Let agents ask, over HTTP and MCP.", rich_markup_mode=None)
    group.callback(invoke_without_command=True)(gateway)
    group.command("token")(token)
    app.add_typer(group, name="gateway")


def gateway(
    context: typer.Context,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve one MCP client on stdin and stdout [JOINGATE_GATEWAY_TOKEN].")
    ] = False,
    bind: Annotated[
        list[str] | None, typer.Option("--bind", help="With --stdio: an argument that no model chooses, name=value.")
    ] = None,
    occurrence: Annotated[
        str, typer.Option("--occurrence", help="With --stdio: which honest repetition this is.")
    ] = "",
    request: Annotated[str, typer.Option("--request", help="With --stdio: the id of the person's request.")] = "",
    host: Host = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Its port; 0 takes a free one [JOINGATE_GATEWAY_PORT].")
    ] = None,
    tokens: Tokens = None,
    catalogue: CatalogueName = None,
    data_dir: DataDir = None,
    api: Api = None,
    json: Json = False,
) -> None:
    """Let agents ask, over HTTP with OpenAPI and over MCP at /mcp, until Ctrl-C. See docs/gateway.md."""
    if context.invoked_subcommand is not None:
        return
    from joingate import services
    from joingate.settings import load_settings

    services.log_to_stderr()
    settings = load_settings(
        host=host, gateway_port=port, gateway_tokens=tokens, catalogue=catalogue, data_dir=data_dir, api_url=api
    )
    if stdio:
        services.run_gateway_stdio(settings, bind or [], occurrence, request)
        return
    if bind or occurrence or request:
        raise FaceError("--bind, --occurrence and --request go with --stdio; over HTTP they are headers.", MALFORMED)
    services.run_gateway(settings, services.until_signal(), services.Reporter("gateway", json))


def token(
    tenant: Annotated[str, typer.Option("--tenant", help="Whose wishes it may ask for.")],
    principal: Annotated[str, typer.Option("--principal", help="The name under which the gate hears it.")],
    role: Annotated[str, typer.Option("--role", help="planner, or reader, which only looks.")] = "planner",
    tokens: Tokens = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Make a token and let it in. It is shown once, on stdout; the file keeps its hash only.

    A gateway that runs reads the file at its start.
    """
    from joingate.gateway.running import tokens_file
    from joingate.gateway.tokens import ROLES, TokenError, new_token
    from joingate.gateway.tokens import Tokens as Known
    from joingate.settings import load_settings

    if role not in ROLES:
        raise FaceError(f"The role is one of {', '.join(ROLES)}; {role!r} is not.", MALFORMED)
    path = tokens_file(load_settings(gateway_tokens=tokens, data_dir=data_dir))
    known_role = next(one for one in ROLES if one == role)
    try:
        made, entry = new_token(tenant, known_role, principal)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        Known.parse(before + ("" if before.endswith("\n") or not before else "\n") + entry.line(), str(path))
    except TokenError as error:
        raise FaceError(str(error), MALFORMED) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:
        file.write(("" if before.endswith("\n") or not before else "\n") + entry.line() + "\n")
    if json:
        print_json({"token": made, "tenant": tenant, "role": role, "principal": principal, "file": str(path)})
        return
    print(made)
    note(f"this token lets {principal} of {tenant} in as a {role}; it is not shown again. Its hash is in {path}.")
