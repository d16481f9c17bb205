"""What every command is asked alike: which database, whose alarms, and in which form to answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from wakeful.app import Wakeful
    from wakeful.cli.output import Output
    from wakeful.config import Settings

T = TypeVar("T")


@dataclass
class CliContext:
    db: str | None = None
    config: str | None = None
    owner: str | None = None
    json: bool = False

    def settings(self, **flags: Any) -> Settings:
        from wakeful.config import load

        return load(self.config, flags={"db": self.db, "owner": self.owner, **flags})

    @property
    def output(self) -> Output:
        from wakeful.cli.output import Output

        return Output.on_stdout(json=self.json)

    def run(self, verb: Callable[[Wakeful], Awaitable[T]], *, creates: bool = False, **flags: Any) -> T:
        """Open the database, do something with the clock, and close it. `creates`: also where there is none yet."""
        import asyncio

        from wakeful.app import build
        from wakeful.cli.database import check_database

        settings = self.settings(**flags)
        check_database(settings, creates=creates)

        async def opened() -> T:
            async with build(settings, via="cli") as clock:
                return await verb(clock)

        return asyncio.run(opened())


def asked() -> CliContext:
    """What this invocation was asked, before or after the command's name."""
    return click.get_current_context().find_root().ensure_object(CliContext)


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None and option.name is not None:
        setattr(ctx.find_root().ensure_object(CliContext), option.name, value)


def _shared(name: str, help: str, **more: Any) -> click.Option:
    return click.Option([name], expose_value=False, callback=_remember, help=help, **more)


# Understood before the command's name and after it.
SHARED: Final = [
    _shared("--db", "A SQLite file, or postgresql://….", metavar="DB"),
    _shared("--config", "The settings file, instead of ./wakeful.toml.", metavar="FILE"),
    _shared("--owner", "Whose alarms.", metavar="NAME"),
    _shared("--json", "Answer with one JSON document.", is_flag=True, default=None),
]


class Command(click.Command):
    """A command that also takes the shared options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, *SHARED]
