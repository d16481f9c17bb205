"""What the pages tell a reader to type exists, and every page can be reached."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from tests.newcomer.packages import ROOT
from wakeful.cli import main

DOCS = ROOT / "docs"
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md"))
)
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"(?:\w+=\S* )*(?:\S*/)?wakeful(?= |$)(.*)")
_INLINE = re.compile(r"`wakeful ([^`\n]+)`")


def command_lines(text: str) -> Iterator[str]:
    """The command lines of wakeful in a page's blocks for a shell; where lines have a prompt, only those."""
    for _, language, block in _FENCE.findall(text):
        if language not in ("", "sh", "console"):
            continue
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        for line in prompted or lines:
            for part in re.split(r"\s(?:\||&&)\s|\$\(|\)", line):
                if (found := _PROGRAM.fullmatch(part.strip())) and not re.match(r"\s+\d", found[1]):
                    yield found[1].strip()


def parse(line: str) -> None:
    """UsageError where the program would not take this line. Nothing is run."""
    words = shlex.split(line, comments=True)
    words = words[: next((at for at, word in enumerate(words) if word in (">", ">>", ";", "&")), None)]
    command: click.Command = main
    context: click.Context | None = None
    name: str | None = "wakeful"
    while isinstance(command, click.Group):
        context = command.make_context(name, list(words), parent=context)
        name, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command = found
    command.make_context(str(name), list(words), parent=context)


def check(line: str, *, whole: bool) -> None:
    try:
        parse(line)
    except click.exceptions.Exit:
        pass  # --version
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        if whole:
            raise


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_a_page_is_one_that_the_program_takes(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / page).read_text()
    for name, value in re.findall(r"^export (CHRONOS_\w+)=(\S+)", text, re.MULTILINE):
        monkeypatch.setenv(name, value)
    for line in command_lines(text):
        try:
            check(line, whole=True)
        except click.ClickException as error:
            raise AssertionError(f"{page}: wakeful {line}: {error.format_message()}") from None
    for line in _INLINE.findall(_FENCE.sub("", text)):
        if re.search(r"[\[|(]", line):  # how a command is written in general, not one to type
            continue
        try:
            check(line.replace("…", "x"), whole=False)
        except click.BadParameter:
            continue  # a word that stands for a value
        except click.ClickException as error:
            raise AssertionError(f"{page}: `wakeful {line}`: {error.format_message()}") from None


def test_the_commands_are_found() -> None:
    found = {page: list(command_lines((ROOT / page).read_text())) for page in PAGES}
    assert sum(map(len, found.values())) > 50
    assert 'at "in 5 seconds" hello --wait     # no target named: it goes to the inbox' in found["README.md"]
    assert "restore recovered.db --replace --missed skip" in found["docs/operations/backup.md"]
    assert "import crontab jobs" in found["docs/reference/cli.md"]


@pytest.mark.parametrize(
    "line",
    ["restor monday.db", "restore monday.db --replaces", "restore", "db mov --to x", "worker --metrics-port many"],
)
def test_a_command_that_does_not_exist_is_found_out(line: str) -> None:
    with pytest.raises(click.ClickException):
        check(line, whole=True)


def entries(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for one in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from entries(one)


def test_the_site_s_contents_name_every_page_once() -> None:
    named = list(entries(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(named) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def anchors(page: Path) -> set[str]:
    """The headings of a page as a link names them."""
    found = set[str]()
    for heading in re.findall(r"^#+ (.+)$", re.sub(_FENCE, "", page.read_text()), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\s-]", "", plain).strip().lower()
        found |= {re.sub(r"[-\s]+", "-", slug), slug.replace(" ", "-")}  # the site's way, and GitHub's
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_page_and_to_a_heading_on_it(page: str) -> None:
    text = _FENCE.sub("", (ROOT / page).read_text())
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        file, _, heading = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), f"{page}: {link}"
        assert not heading or heading in anchors(target), f"{page}: {link}: it has {sorted(anchors(target))}"
