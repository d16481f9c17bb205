"""The command line. A command is imported when it is used, so that `wakeful --help` answers at once.

It opens the database itself, or speaks to a server.
Exit status: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 refused, 6 unreachable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from wakeful._version import __version__
from wakeful.cli.context import SHARED
from wakeful.errors import WakefulError

# section → command → (module, what it does)
COMMANDS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Set": {
        "at": ("create", "Set an alarm that fires once."),
        "every": ("create", "Set an alarm that fires again and again."),
        "set": ("create", "Set many alarms from a file, all of them or none."),
        "preview": ("preview", "Show what a time means, without setting anything."),
    },
    "Look": {
        "ls": ("read", "List alarms, newest first."),
        "show": ("read", "Show one alarm and its latest fires."),
        "why": ("read", "Explain when an alarm fires, or why it was late or did not."),
        "agenda": ("read", "List the next fires of all alarms, soonest first."),
        "history": ("read", "List what happened and what is to come, newest first."),
        "failed": ("read", "List the latest fires that failed or fell silent."),
        "simulate": ("simulate", "Show what will fire in the days to come, without firing anything."),
        "stats": ("read", "Count alarms and fires."),
        "budget": ("settings", "Show what is used of budgets in this hour and day."),
        "tail": ("tail", "Show the latest events, and follow them as they happen."),
        "top": ("tail", "Watch what is due, in flight and next, by target."),
    },
    "Act": {
        "cancel": ("change", "Cancel alarms."),
        "pause": ("change", "Pause alarms until they are resumed."),
        "resume": ("change", "Resume paused alarms."),
        "edit": ("edit", "Change an alarm: by flags, or in your editor."),
        "snooze": ("change", "Put an alarm off for a while."),
        "move": ("change", "Move alarms in time, or to another time zone."),
        "skip": ("change", "Skip the next fire of a series, and keep the series."),
        "undo": ("change", "Take back the last change of an alarm."),
        "fire": ("change", "Fire an alarm now, once more; its own time stays."),
        "append": ("change", "Add to the payload of an alarm."),
        "signal": ("change", "Say that something happened, to the alarms that wait for it."),
        "retry": ("change", "Open a failed or timed-out fire again."),
        "done": ("change", "Report that the work of a fire is done."),
        "fail": ("change", "Report that the work of a fire failed."),
        "hand-over": ("change", "Wake another target in place of the one that has a wake."),
        "wait": ("inbox", "Wait for wakes in the inbox, and take them."),
    },
    "Serve": {
        "serve": ("admin", "Run the dispatcher and the HTTP API."),
        "worker": ("admin", "Run the dispatcher alone."),
        "mcp": ("mcp", "Answer an agent over MCP on stdin and stdout."),
        "doctor": ("doctor", "Check that everything is here that an alarm needs to fire."),
    },
    "Set up": {
        "settings": ("settings", "Show or change your own zone, working days and calendar."),
        "login": ("login", "Remember a server and a token for it."),
        "logout": ("login", "Forget a server and its token."),
        "init": ("init", "Write a settings file with every setting explained."),
        "target": ("admin", "List, test, pause and resume targets."),
        "token": ("tokens", "Make, list and revoke tokens, and change keys."),
        "db": ("admin", "Look after the database."),
        "completion": ("init", "Print the script with which a shell completes commands."),
        "purge": ("admin", "Delete what was finished long ago."),
        "backup": ("backup", "Back up the whole database into one file, while it is in use."),
        "restore": ("backup", "Restore a backup."),
    },
    "Move": {
        "export": ("export", "Write alarms to a file, as JSON lines."),
        "import": ("importing", "Take over alarms from another system."),
    },
}
HELP: Final = "help"
HELP_OPTIONS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}
_HOMES: Final = {name: entry for section in COMMANDS.values() for name, entry in section.items()}


class Commands(click.Group):
    """The commands by name; each module is imported when one of its commands is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == HELP:
            return help_command
        if cmd_name not in _HOMES:
            return None
        command = getattr(import_module(f"wakeful.cli.{_HOMES[cmd_name][0]}"), f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]!r}.{_meant(args[0], [*_HOMES, HELP])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(10), about) for name, (_, about) in commands.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever read us has seen enough. What is still buffered goes nowhere, without complaint.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        words = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(words, *rest, **(extra | {"standalone_mode": False}))
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.ClickException as error:
            code = _tell_usage(error, json=_wants_json(words))
        except click.Abort:
            code = 130
        except WakefulError as error:
            code = tell(error, json=_wants_json(words))
        sys.exit(code if isinstance(code, int) else 0)


def _wants_json(words: Sequence[str]) -> bool:
    """Asked of the words as they are: they may be wrong, and that is said in JSON too."""
    return "--json" in words[: words.index("--") if "--" in words else None]


def _tell_usage(error: click.ClickException, *, json: bool) -> int:
    message, fix = _usage(error)
    if json:
        from wakeful.cli.output import usage_error

        click.echo(usage_error(error, message, fix), err=True)
    else:
        click.echo(f"error: {message} {fix}".rstrip(), err=True)
    return error.exit_code


def _usage(error: click.ClickException) -> tuple[str, str]:
    """What was wrong, and what to do."""
    message, fix = error.format_message(), ""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        known = [name for param in error.ctx.command.params for name in param.opts if name.startswith("--")]
        message = f"there is no option {error.option_name}.{_meant(error.option_name, known)}"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        fix = f"See: {error.ctx.command_path} --help"
    return message, fix


def _meant(name: str, known: list[str]) -> str:
    from wakeful.errors import nearest

    return f" {found}" if (found := nearest(name, known)) else ""


def tell(error: WakefulError, *, json: bool) -> int:
    """Say on stderr what went wrong and what to do; the exit status for it."""
    from wakeful.cli.output import clean, error_line
    from wakeful.service.views import DOORS

    click.echo(error_line(error) if json else f"error: {clean(str(error))}", err=True)
    return DOORS[error.code][1]


@click.command(HELP, context_settings=HELP_OPTIONS)
@click.argument("names", nargs=-1, metavar="[COMMAND]…")
@click.pass_context
def help_command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show what a command does and takes."""
    shown = ctx.find_root()
    command = shown.command
    for name in names:
        found = command.get_command(shown, name) if isinstance(command, click.Group) else None
        if found is None:
            known = command.list_commands(shown) if isinstance(command, click.Group) else []
            raise click.UsageError(f"there is no command {name!r}.{_meant(name, known)}", shown)
        shown, command = click.Context(found, parent=shown, info_name=name), found
    click.echo(command.get_help(shown))


main = Commands(
    "wakeful",
    context_settings=HELP_OPTIONS,
    params=[
        *SHARED,
        click.Option(["--version"], is_flag=True, is_eager=True, expose_value=False, help="Show the version and exit."),
    ],
    help="A durable alarm clock for AI agents and services.",
    epilog="`wakeful help COMMAND` says more about one. Every setting also comes from wakeful.toml and WAKEFUL_* "
    "variables: docs/reference/settings.md.",
    callback=lambda: None,
)


def _say_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"wakeful {__version__}")
        ctx.exit()


main.params[-1].callback = _say_version
