"""What every command is asked alike: which database or server, whose alarms, and in which form to answer."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from wakeful.cli.colours import CHOICES
from wakeful.errors import WakefulError

if TYPE_CHECKING:
    from wakeful.cli.output import Output
    from wakeful.cli.times import ShellZone
    from wakeful.process.application import LocalWakeful, Wakeful
    from wakeful.settings import Settings

T = TypeVar("T")
W = TypeVar("W")


@dataclass
class CliContext:
    db: str | None = None
    config: str | None = None
    owner: str | None = None
    json: bool = False
    server_url: str | None = None
    profile: str | None = None
    color: str = "auto"

    def server(self) -> tuple[str, str | None]:
        """The server that is asked, and the token where a profile has one; empty where it is a database.

        A flag counts before a variable, and the name of a profile before WAKEFUL_URL.
        """
        from wakeful.errors import InvalidConfig
        from wakeful.remote.connection import server_in

        flags = {"--db": self.db, "--url": self.server_url, "--profile": self.profile}
        if len(said := [name for name, value in flags.items() if value]) > 1:
            raise InvalidConfig(f"{said[0]} and {said[1]} name two places", field=said[1], fix="Give one of them.")
        if self.db:
            return "", None
        if name := self.profile or ("" if self.server_url else os.environ.get("WAKEFUL_PROFILE", "")):
            from wakeful.cli.profiles import profile

            return profile(name)
        return self.server_url or server_in(os.environ), None

    def settings(self, **flags: Any) -> Settings:
        """The settings for a database: whoever asks for them is about to open it."""
        from wakeful.errors import InvalidRequest
        from wakeful.settings import load

        if url := self.server()[0]:
            raise InvalidRequest(
                f"this command needs the database itself, and {url} is a server",
                field="url",
                fix="Run it where the database is, and name that with --db.",
            )

        return load(self.config, flags={"db": self.db, "owner": self.owner, **flags})

    def zone(self, given: str | None) -> ShellZone:
        """The zone in which a time is read: a shell has its own, whatever a server has set."""
        from wakeful.cli.times import asked_zone

        return asked_zone(given, None if self.server()[0] else self.settings())

    @property
    def output(self) -> Output:
        from wakeful.cli.output import Output

        return Output.on_stdout(json=self.json, color=self.color)

    def run(
        self, verb: Callable[[Wakeful], Awaitable[T]], *, creates: bool = False, delivers: bool = False, **flags: Any
    ) -> T:
        """Open the database, or speak to the server that is named, run a verb, and close it; see `run_local`."""
        from wakeful.errors import InvalidConfig
        from wakeful.process.application import open_server

        url, token = self.server()
        if not url:
            return self.run_local(verb, creates=creates, delivers=delivers, **flags)
        if self.owner:
            raise InvalidConfig("a token says whose alarms they are", field="--owner", fix="Leave it out.")
        return _run(open_server(url, token), verb)

    def run_local(
        self,
        verb: Callable[[LocalWakeful], Awaitable[T]],
        *,
        creates: bool = False,
        delivers: bool = False,
        **flags: Any,
    ) -> T:
        """The same for what needs the database itself: where a server is named, it is refused.

        `creates`: a database is made where there is none yet. `delivers`: the targets are built too, for whoever runs
        the dispatcher.
        """
        from wakeful.cli.database import check_database
        from wakeful.process.application import build

        settings = self.settings(**flags)
        check_database(settings, creates=creates)
        return _run(build(settings, via="cli", delivers=delivers), verb)


def _run(closed: AbstractAsyncContextManager[W], verb: Callable[[W], Awaitable[T]]) -> T:
    import asyncio

    async def opened() -> T:
        async with closed as alarms:
            return await verb(alarms)

    return asyncio.run(opened())


def asked() -> CliContext:
    """What this invocation was asked, before or after the command's name."""
    return click.get_current_context().find_root().ensure_object(CliContext)


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None and option.name is not None:
        setattr(ctx.find_root().ensure_object(CliContext), option.name, value)


def _shared(name: str, help: str, *, kept_as: str = "", **more: Any) -> click.Option:
    return click.Option(
        [name, kept_as] if kept_as else [name], expose_value=False, callback=_remember, help=help, **more
    )


# Understood before the command's name and after it.
SHARED: Final = [
    _shared("--db", "A SQLite file, or postgresql://….", metavar="DB"),
    _shared("--url", "A server, https://…, instead of a database.", metavar="URL", kept_as="server_url"),
    _shared("--profile", "A server by the name that `wakeful login` gave it.", metavar="NAME"),
    _shared("--config", "The settings file, instead of ./wakeful.toml.", metavar="FILE"),
    _shared("--owner", "Whose alarms.", metavar="NAME"),
    _shared("--json", "Answer with one JSON document.", is_flag=True, default=None),
    _shared(
        "--color",
        "Colour by status: on a terminal (auto), always or never. NO_COLOR is honoured.",
        type=click.Choice(CHOICES),
    ),
]


class Command(click.Command):
    """A command that also takes the shared options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, *SHARED]

    def invoke(self, ctx: click.Context) -> Any:
        """Errors name the option that was used: `--tz`, not the field that it fills."""
        try:
            return super().invoke(ctx)
        except WakefulError as error:
            name = error.field.removeprefix("policy.")
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                options = (param for param in self.params if isinstance(param, click.Option) and param not in SHARED)
                error.field = next((max(one.opts, key=len) for one in options if one.name == name), error.field)
            raise
