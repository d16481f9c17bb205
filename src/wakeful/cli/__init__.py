"""The command line. A command is imported when it is used, so that `wakeful --help` answers at once.

It opens the database itself. Exit status: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 refused, 6 unreachable.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from wakeful import __version__
from wakeful.cli.context import SHARED
from wakeful.errors import WakefulError

# section → command → (module, what it does)
COMMANDS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Set": {
        "at": ("create", "Set an alarm that fires once."),
        "every": ("create", "Set an alarm that fires again and again."),
        "preview": ("preview", "Show what a time means, without setting anything."),
    },
    "Look": {
        "ls": ("read", "List alarms, newest first."),
        "show": ("read", "Show one alarm and its latest fires."),
        "why": ("read", "Explain when an alarm fires, or why it was late or did not."),
        "agenda": ("history", "List the next fires of all alarms, soonest first."),
        "history": ("history", "List what happened and what is to come, newest first."),
        "failed": ("history", "List the latest fires that failed or fell silent."),
        "stats": ("history", "Count alarms and fires."),
    },
    "Act": {
        "cancel": ("change", "Cancel alarms."),
        "pause": ("change", "Pause alarms until they are resumed."),
        "resume": ("change", "Resume paused alarms."),
        "snooze": ("change", "Put an alarm off for a while."),
        "fire": ("change", "Fire an alarm now, once more; its own time stays."),
        "retry": ("change", "Open a failed or timed-out fire again."),
        "done": ("change", "Report that the work of a fire is done."),
        "fail": ("change", "Report that the work of a fire failed."),
        "wait": ("inbox", "Wait for wakes in the inbox, and take them."),
    },
    "Serve": {
        "serve": ("admin", "Run the dispatcher and the HTTP API."),
        "worker": ("admin", "Run the dispatcher alone."),
        "mcp": ("mcp", "Answer an agent over MCP on stdin and stdout."),
    },
    "Set up": {
        "target": ("admin", "List, pause and resume targets."),
        "token": ("tokens", "Make, list and revoke tokens, and change keys."),
        "db": ("admin", "Look after the database."),
        "purge": ("admin", "Delete what was finished long ago."),
        "backup": ("backup", "Back up the whole database into one file, while it is in use."),
        "restore": ("backup", "Restore a backup."),
    },
    "Move": {
        "import": ("importing", "Take over alarms from another system."),
    },
}
_HOMES: Final = {name: entry for section in COMMANDS.values() for name, entry in section.items()}


class Commands(click.Group):
    """The commands by name; each module is imported when one of its commands is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        command = getattr(import_module(f"wakeful.cli.{_HOMES[cmd_name][0]}"), f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(8), about) for name, (_, about) in commands.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever read us has seen enough. What is still buffered goes nowhere, without complaint.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        try:
            code = super().main(*args, **(extra | {"standalone_mode": False}))
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.ClickException as error:
            click.echo(f"error: {_usage(error)}", err=True)
            code = error.exit_code
        except click.Abort:
            code = 130
        except WakefulError as error:
            code = tell(error)
        sys.exit(code if isinstance(code, int) else 0)


def _usage(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message += f" See: {error.ctx.command_path} --help"
    return message


def tell(error: WakefulError) -> int:
    """Say on stderr what went wrong and what to do; the exit status for it."""
    from wakeful.cli.output import clean
    from wakeful.views import DOORS

    click.echo(f"error: {clean(str(error))}", err=True)
    return DOORS[error.code][1]


main = Commands(
    "wakeful",
    params=[*SHARED, click.Option(["--version"], is_flag=True, is_eager=True, expose_value=False, help="Say which.")],
    help="A durable alarm clock for AI agents and services.",
    epilog="Every setting also comes from wakeful.toml and WAKEFUL_* variables: docs/reference/settings.md.",
    callback=lambda: None,
)


def _say_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"wakeful {__version__}")
        ctx.exit()


main.params[-1].callback = _say_version
