"""Commands for tokens: who may speak for an owner over HTTP and MCP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec

from wakeful.cli.context import Command, asked
from wakeful.cli.database import check_database
from wakeful.cli.output import utc
from wakeful.errors import Conflict, InvalidRequest
from wakeful.model.alarm import Event
from wakeful.process.application import build_store
from wakeful.rules.wake import KEY_GRACE
from wakeful.schedule import duration
from wakeful.service.calendar_feed import feed_url
from wakeful.service.tokens import CALENDAR, TokenVerbs, outlived, token_state
from wakeful.store import Store, Token

T = TypeVar("T")


@click.group("token")
def token_command() -> None:
    """Make, list and revoke tokens, and change keys."""


@token_command.command("new", cls=Command)
@click.option(
    "--scopes", default="read,write", show_default=True, metavar="LIST", help="Of read, write and admin; or calendar."
)
@click.option("--expires", metavar="DURATION", help="How long it is good, such as 30d; otherwise until revoked.")
@click.option("--label", default="", help="What it is for, to tell it from others.")
def token_new(scopes: str, expires: str | None, label: str) -> None:
    """Make a token for an owner (--owner).

    It is shown this once: only its hash is kept. From the first token on, every request needs one. One with the scope
    calendar is good for the calendar feed and nothing else: it comes with the address to subscribe to.
    """
    settings = asked().settings()
    owner = settings.owner
    lasts = None if expires is None else duration(expires)

    async def do(store: Store) -> tuple[str, Token]:
        given = [scope.strip() for scope in scopes.split(",")]
        return await TokenVerbs(store).new(owner, given, lasts=lasts, label=label)

    text, token = _on_store(do, creates=True)
    base = settings.public_url or settings.local_url
    url = {"url": feed_url(base, text)} if CALENDAR in token.scopes else {}
    asked().output.record(
        {
            "token": text,
            "id": token.id,
            "owner": token.owner_did,
            "scopes": ",".join(token.scopes),
            "expires": _moment(token.expires_at),
        }
        | url,
        {"token": text} | _document(token) | url,
    )
    click.echo("note: keep it now; it is not shown again", err=True)


@token_command.command("ls", cls=Command)
def token_ls() -> None:
    """List the tokens of all owners.

    Columns in a pipe: id, owner, scopes, state, created, last used, label, and the id of the token that made it.
    """

    async def do(store: Store) -> tuple[list[Token], datetime]:
        return await TokenVerbs(store).all(), await store.now()

    tokens, now = _on_store(do)
    rows = [
        (
            token.id,
            token.owner_did,
            ",".join(token.scopes),
            _state(token, now),
            _moment(token.created_at),
            _moment(token.last_used_at),
            token.label,
            token.made_by,
        )
        for token in tokens
    ]
    if asked().output.is_table and not rows:
        click.echo("There are no tokens. Make one: wakeful token new --owner NAME")
        return
    documents = [_document(token) | {"state": _state(token, now)} for token in tokens]
    columns = ("id", "owner", "scopes", "state", "created", "last used", "label", "made by")
    asked().output.rows(columns, rows, {"tokens": documents, "now": now})


@token_command.command("revoke", cls=Command)
@click.argument("id")
def token_revoke(id: str) -> None:
    """Make a token useless, within two seconds and for good, and the calendar links that it made.

    ID is the part between the first and the second underscore; the whole token is understood too. A note names what
    outlives it: tokens that it made, and wakes that it fetched whose own tokens may still be good.
    """
    lasts = asked().settings().chain_token_lasts
    revoked = _on_store(lambda store: TokenVerbs(store).revoke(id, wakes_within=lasts))
    ended = {name: getattr(revoked, name) for name in ("links", "tokens", "wakes")}
    shown = {"id": revoked.id, "state": "revoked"} | {name: ",".join(ids) for name, ids in ended.items() if ids}
    asked().output.record(shown, {"id": revoked.id, "state": "revoked"} | ended)
    for said in outlived(revoked):
        click.echo(f"note: {said}", err=True)


@token_command.command("open", cls=Command)
@click.option("--yes", is_flag=True, help="Do it; without this, only say what it would do.")
def token_open(yes: bool) -> None:
    """Let everyone in who reaches the server on loopback, once no token is good any more.

    A server that has ever had a token stays closed when the last one ends, and so does one with `public_url`. This
    opens it again, until the next token is made. Whoever reaches it then acts as the owner in the settings, also
    through a proxy in front of it.
    """

    async def do(store: Store) -> None:
        now = await store.now()
        live = [token.id for token in await store.access.tokens() if token.is_live(now)]
        if live:
            many = f"{len(live)} tokens are still good", "Revoke each first"
            said, first = many if len(live) > 1 else ("1 token is still good", "Revoke it first")
            raise Conflict(said, fix=f"{first}: wakeful token revoke {live[0]}.")
        if not yes:
            raise InvalidRequest(
                "everyone who reaches the server would act as its owner, without a token",
                field="--yes",
                fix="Say --yes if that is what you want.",
            )
        await store.access.open_auth(Event(at=now, what="opened", by="cli", reason="no token is needed any more"))

    _on_store(do)
    asked().output.record({"state": "open"}, {"state": "open"})
    click.echo("note: everyone who reaches the server is let in, until the next token is made", err=True)


@token_command.command("rotate-reports", cls=Command)
def token_rotate_reports() -> None:
    """Change the key that the report tokens of wakes are made with.

    Running servers and workers use the new one within a tick. A token that a wake brought before is good until the
    report of its fire is due, and an hour at least; afterwards, and for fires that begin later, it is refused.
    """

    async def do(store: Store) -> tuple[datetime, int]:
        now = await store.now()
        event = Event(at=now, what="rotated", by="cli", reason="report tokens are made with a new key")
        return now, len((await store.access.rotate_report_key(now, event)).retired)

    now, retired = _on_store(do)
    asked().output.record(
        {"rotated": utc(now), "good until": utc(now + KEY_GRACE), "earlier keys": str(retired)},
        {"rotated_at": now, "good_until": now + KEY_GRACE, "earlier_keys": retired},
    )
    click.echo("note: tokens brought before are good until then, or until the report of their fire is due", err=True)


def _on_store(verb: Callable[[Store], Awaitable[T]], *, creates: bool = False) -> T:
    settings = asked().settings()
    check_database(settings, creates=creates)

    async def opened() -> T:
        store = build_store(settings)
        try:
            await store.migrate()
            return await verb(store)
        finally:
            await store.close()

    return asyncio.run(opened())


def _state(token: Token, now: datetime) -> str:
    state = token_state(token, now)
    return state if state != "live" or token.expires_at is None else f"until {utc(token.expires_at)}"


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else utc(moment)


def _document(token: Token) -> dict[str, Any]:
    """What there is to know of a token; not its hash."""
    shown = msgspec.structs.asdict(token)
    del shown["hash"]
    return {name: value for name, value in shown.items() if value not in (None, "")}
