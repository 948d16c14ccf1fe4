"""The command line: verbs, global options, and the text of every `--help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, NoReturn

from byref.cli import output
from byref.errors import one_line


class Default(str):
    """A default value; its type tells it from the same text given by the user."""

    __slots__ = ()


DEFAULT_DB = "sqlite:///byref.db"
DEFAULT_SESSION = Default("cli")
DEFAULT_TENANT = Default("default")

EXIT_CODES = """exit codes:
  0  it worked
  1  it failed, or the model's code or tool call was an error
  2  the command line is wrong"""


class Option(NamedTuple):
    """A global option: accepted before and after every verb."""

    flag: str
    settings: dict[str, Any]
    default: Callable[[], object]


class Verb(NamedTuple):
    """One verb: its own arguments, and the global options that its help shows."""

    name: str
    help: str
    description: str
    arguments: tuple[tuple[str, dict[str, Any]], ...] = ()
    shown: tuple[str, ...] = ()
    otherwise: Mapping[str, str] = {}
    """Help texts of global options that have another meaning for this verb."""


class Group(NamedTuple):
    """A verb that has verbs of its own: `byref db upgrade`."""

    name: str
    help: str
    verbs: tuple[Verb, ...]


def package_version() -> str:
    """Return the version of the installed package."""
    try:
        return version("byref")
    except PackageNotFoundError:
        return "unknown"


class _Parser(argparse.ArgumentParser):
    """A parser whose error messages fit on one line and cannot steer a terminal: they quote what was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message, 1_000))

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:
            output.write(message)  # argparse passes over what cannot be written
        else:
            super()._print_message(message, file)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="byref",
        usage="byref [options] VERB …",
        description="Big tool outputs by reference: kept whole in SQL, described to the model, queried by sandboxed code.",
        epilog=f"Options may come before or after the verb. {_ENVIRONMENT}\n\n{EXIT_CODES}",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"byref {package_version()}")
    _add_options(parser, shown=tuple(OPTIONS), keep=True)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    for verb in VERBS:
        _add_verb(verbs, verb, f"byref {verb.name}")
    for group in GROUPS:
        _add_group(verbs, group)
    return parser


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Formats help with the same width on any terminal, so that tests can compare it with the documentation."""

    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, max_help_position=26, width=100, **{k: v for k, v in settings.items() if k == "color"})


def _add_group(verbs: Any, group: Group) -> None:
    parser = verbs.add_parser(
        group.name,
        prog=f"byref {group.name}",
        usage=f"byref {group.name} VERB …",
        help=group.help,
        description=f"{group.help[:1].upper()}{group.help[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    _add_options(parser, shown=("db", "schema"), keep=False)
    below = parser.add_subparsers(dest=f"{group.name}_verb", metavar="VERB", title="verbs", required=True)
    for verb in group.verbs:
        _add_verb(below, verb, f"byref {group.name} {verb.name}")


def _add_verb(verbs: Any, verb: Verb, prog: str) -> None:
    words = " ".join(
        f"[{settings['metavar']}]" if settings.get("nargs") == "?" else str(settings["metavar"])
        for name, settings in verb.arguments
        if not name.startswith("-")
    )
    parser = verbs.add_parser(
        verb.name,
        prog=prog,
        usage=f"{prog} {words} [options]" if words else f"{prog} [options]",
        help=verb.help,
        description=verb.description,
        epilog=f"More options, for every verb: byref --help.\n\n{EXIT_CODES}",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    for name, settings in verb.arguments:
        parser.add_argument(name, **settings)
    _add_options(parser, shown=verb.shown, keep=False, otherwise=verb.otherwise)


def _add_options(
    parser: argparse.ArgumentParser, *, shown: tuple[str, ...], keep: bool, otherwise: Mapping[str, str] | None = None
) -> None:
    """Add every global option. Without `keep` an option has no default here, so that a value given before the verb is not
    overwritten.
    """
    for name, option in OPTIONS.items():
        settings = dict(option.settings)
        settings["default"] = option.default() if keep else argparse.SUPPRESS
        if name not in shown:
            settings["help"] = argparse.SUPPRESS
        elif otherwise and name in otherwise:
            settings["help"] = otherwise[name]
        parser.add_argument(option.flag, **settings)


def _positive(text: str) -> int:
    return _number(text, least=1, words="a positive number of tokens")


def _limit(text: str) -> int:
    return _number(text, least=1, words="a number from 1 on")


def _step(text: str) -> int:
    return _number(text, least=0, words="the number of a step")


def _port(text: str) -> int:
    number = _number(text, least=0, words="a port, at most 65535")
    if number > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a port, at most 65535")
    return number


def _number(text: str, *, least: int, words: str) -> int:
    try:
        number = int(text.replace("_", ""))
    except ValueError:
        number = -1
    if not least <= number < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r}: expected {words}")
    return number


def _database(text: str) -> str:
    if not text.strip():  # SQLite's name of a database that is gone at the end
        raise argparse.ArgumentTypeError(f"{text!r}: expected a URL or a path")
    return text


def _none() -> None:
    return None


_ENVIRONMENT = "BYREF_DEBUG=1 shows tracebacks."

OPTIONS = {
    "db": Option(
        "--db",
        {
            "metavar": "URL",
            "type": _database,
            "help": "database: SQLAlchemy URL of SQLite or PostgreSQL, or the path of a SQLite file "
            f"(BYREF_DB, else {DEFAULT_DB})",
        },
        lambda: os.environ.get("BYREF_DB") or DEFAULT_DB,
    ),
    "blobs": Option(
        "--blobs",
        {
            "metavar": "PLACE",
            "help": "folder, or s3://, gs:// or az:// URL, that has the bytes instead of the database (BYREF_BLOBS)",
        },
        lambda: os.environ.get("BYREF_BLOBS") or None,
    ),
    "schema": Option("--schema", {"metavar": "NAME", "help": "PostgreSQL schema of the tables"}, _none),
    "session": Option(
        "--session",
        {"metavar": "ID", "help": f"conversation (default: {DEFAULT_SESSION}); made when something is put into it"},
        lambda: DEFAULT_SESSION,
    ),
    "tenant": Option("--tenant", {"metavar": "ID", "help": "whose it is (default: default)"}, lambda: DEFAULT_TENANT),
    "tool": Option(
        "--tool",
        {"metavar": "NAME", "help": "tool that gave the output (default: the file's name without suffix)"},
        _none,
    ),
    "call_id": Option(
        "--call-id",
        {"metavar": "ID", "help": "id of the call: the same content again under it is answered as before"},
        _none,
    ),
    "model": Option(
        "--model", {"metavar": "NAME", "help": "model that reads: decides the window and the price"}, _none
    ),
    "context_window": Option(
        "--context-window",
        {"metavar": "TOKENS", "type": _positive, "help": "the model's window, instead of --model's"},
        _none,
    ),
    "jail": Option(
        "--jail",
        {
            "metavar": "KIND",
            "choices": ("full", "language-only"),
            "help": "full (default), or language-only: no walls of the operating system, which is no security boundary",
        },
        lambda: "full",
    ),
    "durability": Option(
        "--durability",
        {
            "metavar": "KIND",
            "choices": ("normal", "full"),
            "help": "normal (default), or full: each commit waits for the disk, so that a power cut takes none back "
            "(BYREF_DURABILITY)",
        },
        lambda: os.environ.get("BYREF_DURABILITY") or "normal",
    ),
    "modules": Option(
        "--modules",
        {
            "metavar": "NAMES",
            "help": "further packages that code may import, as humanize,toolz: `byref modules check` says which may be allowed "
            "(BYREF_MODULES)",
        },
        lambda: os.environ.get("BYREF_MODULES") or "",
    ),
    "json": Option("--json", {"action": "store_true", "help": "print JSON"}, lambda: False),
}
"""Global options by the attribute name of the parsed value."""

_YES = ("--yes", {"action": "store_true", "help": "do it without being asked"})


def _page(after: str, type_: Callable[[str], object] = str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the options of a list with pages; `after` has the metavar of --after and a word for it."""
    metavar, words = after.split(": ")
    return (
        ("--limit", {"metavar": "N", "type": _limit, "help": "at most so many; default: all"}),
        ("--after", {"metavar": metavar, "type": type_, "help": f"go on behind {words}, the last of the page before"}),
    )


_PUTS = ("db", "blobs", "schema", "session", "tenant", "tool", "call_id", "model", "context_window", "json")
_RUNS = ("db", "blobs", "schema", "session", "tenant", "call_id", "model", "modules", "json")
_READS = ("db", "blobs", "schema", "session", "tenant", "json")

_NO_LINKS: tuple[str, dict[str, Any]] = (
    "--no-links",
    {"action": "store_true", "help": "results without links to what was stored, which some clients refuse"},
)
_SERVING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--http", {"metavar": "HOST:PORT", "help": "serve streamable HTTP at http://HOST:PORT/mcp"}),
    (
        "--tokens",
        {
            "metavar": "FILE",
            "help": 'JSON, {"tenant": "token"}: bearer tokens, and whose they are (BYREF_MCP_TOKEN: the token of --tenant); '
            "needed unless HOST is of this machine alone",
        },
    ),
    (
        "--allow-host",
        {
            "metavar": "NAME",
            "action": "append",
            "help": "a name by which clients reach the server; may be repeated",
        },
    ),
)
"""Options of the verbs that serve clients."""
_EACH = "conversation of all clients (default: one of its own for each, or what an HTTP header X-Byref-Session names)"

VERBS = (
    Verb(
        "process",
        "process a tool's output and print what the model reads",
        "Take in a tool's output, as a host would, and print what the model reads of it. On a terminal the reason follows.",
        (
            ("file", {"metavar": "FILE", "help": "file with the output; - is standard input"}),
            ("--error", {"action": "store_true", "help": "the output is a tool's error"}),
        ),
        _PUTS,
    ),
    Verb(
        "run",
        "run Python over the session's variables",
        "Run Python in the sandbox over the session's variables, as the model would with code_interpreter, and print the reply.",
        (("code", {"metavar": "CODE", "help": "Python source; - is standard input"}),),
        _RUNS,
    ),
    Verb(
        "tool",
        "call one of the model's tools",
        "Call one of the model's tools and print the reply.",
        (
            ("name", {"metavar": "NAME", "help": "artifact_jq, artifact_grep, artifact_read, list_artifacts, …"}),
            ("arguments", {"metavar": "JSON", "help": "arguments as one JSON object; - is standard input"}),
        ),
        _RUNS,
    ),
    Verb(
        "sessions",
        "list the conversations",
        "List a tenant's conversations, oldest first: their steps, the bytes that are stored, the tokens that providers "
        "counted, the tokens of outputs that no model had to read, and what the requests cost.",
        (
            ("--all-tenants", {"action": "store_true", "help": "those of every tenant"}),
            *_page("ID: this conversation; with --all-tenants that of --tenant"),
        ),
        ("db", "schema", "tenant", "json"),
    ),
    Verb(
        "tenants",
        "list the tenants",
        "List the tenants that have conversations, by name, with the sums over them, as `byref sessions` has them of each.",
        _page("TENANT: this tenant"),
        ("db", "schema", "json"),
    ),
    Verb(
        "show",
        "what is in a session, or one thing of it whole",
        "Without WHAT list the session's variables and artifacts; with it print one: the data of a variable or an artifact, "
        "or what the model read at a step.",
        (
            (
                "what",
                {"metavar": "WHAT", "nargs": "?", "help": "a variable's name, an artifact's id or name, or a step"},
            ),
            *_page("NAME|ID: this variable or artifact"),
        ),
        _READS,
    ),
    Verb(
        "pending",
        "which code waits for approvals",
        "List a tenant's calls in code that wait for somebody's approval, oldest first; `Session.resume` decides them.",
        (
            ("--all-tenants", {"action": "store_true", "help": "those of every tenant"}),
            (
                "--limit",
                {"metavar": "N", "type": _limit, "help": "at most the calls of so many runs of code; default: 1,000"},
            ),
        ),
        ("db", "schema", "tenant", "json"),
    ),
    Verb(
        "learned",
        "what a tool has returned so far, as a JSON Schema",
        "Print the JSON Schema of what a tool has returned to a tenant so far, as it was learned from its outputs.",
        (("name", {"metavar": "NAME", "help": "name of the tool"}),),
        ("db", "schema", "tenant"),
    ),
    Verb(
        "ledger",
        "what every step did to the context",
        "Print the session's ledger and its sums, in tokens.",
        _page("STEP: this step", _step),
        _READS,
    ),
    Verb(
        "explain",
        "why an output took its route",
        "Say why an output took its route, with the numbers that were compared.",
        (("key", {"metavar": "STEP|CALL_ID", "help": "step of the ledger, or the id of the call"}),),
        _READS,
    ),
    Verb(
        "history",
        "what every tool returned, and what the model read of it",
        "List the outputs of the session's tools in order: as each came, by reference, and the beginning of what the model "
        "read of it, which `byref show STEP` prints whole, and --json of all.",
        _page("STEP: this step", _step),
        _READS,
    ),
    Verb(
        "delete",
        "delete a conversation, or all of a tenant",
        "Delete a conversation with its ledger, its artifacts and their bytes: --session ID names it, and --tenant ID whose "
        "it is. Without --session everything of the tenant that --tenant names is deleted. Asks before; where nobody can be "
        "asked, --yes is needed.",
        (_YES,),
        ("db", "blobs", "schema", "session", "tenant", "json"),
        {"session": "the conversation; without it, all of --tenant"},
    ),
    Verb(
        "doctor",
        "what is installed, reachable and in force",
        "Report versions, the database, and which walls of the sandbox are in force, with what a run costs here. "
        "Exit code 1 if something that byref needs is missing.",
        (),
        ("db", "blobs", "schema", "jail", "json"),
    ),
    Verb(
        "modules",
        "what a Python package reaches, and whether code may be allowed to import it",
        "Read packages of Python, and all that they import, without running them, and print which of their functions and classes "
        "reach files, the network, threads, processes, code made of text or the interpreter's inside, and through what. Exit code "
        "1 if one may not be allowed with --modules, or Engine(modules=…).",
        (
            ("action", {"metavar": "check", "choices": ("check",), "help": "what to do"}),
            ("names", {"metavar": "NAME …", "nargs": "+", "help": "import names of packages, or of modules in them"}),
        ),
        ("json",),
    ),
    Verb(
        "mcp",
        "serve the Model Context Protocol: a session's tools, its artifacts as resources",
        "Serve the Model Context Protocol over standard input and output, to the one client that started the command; or over "
        "HTTP. A session is made for each client unless --session, or an HTTP request's header X-Byref-Session, names one.",
        (_NO_LINKS, *_SERVING),
        ("db", "blobs", "schema", "session", "tenant", "model", "jail", "durability", "modules"),
        {"session": _EACH},
    ),
    Verb(
        "gateway",
        "run between an MCP client and its servers: their big results by reference",
        "Run between an MCP client and any MCP servers: what their tools return is kept and described when it is big, and may "
        "be named in the arguments of any tool. The servers are those of a file in the form of clients, "
        '{"mcpServers": {…}}, or one that a command after -- starts. The client is served over standard input and output, or '
        "over HTTP.",
        (
            ("command", {"metavar": "-- COMMAND …", "nargs": "*", "help": "command that starts a server"}),
            ("--config", {"metavar": "FILE", "help": 'JSON, {"mcpServers": {…}}, as clients have it'}),
            _NO_LINKS,
            *_SERVING,
        ),
        ("db", "blobs", "schema", "session", "tenant", "model", "context_window", "jail", "durability", "modules"),
        {
            "db": "database: SQLAlchemy URL of SQLite or PostgreSQL, or the path of a SQLite file "
            "(BYREF_DB, else ~/.local/state/byref/gateway.db)",
            "session": _EACH,
        },
    ),
    Verb(
        "serve",
        "serve the HTTP API: sessions for programs in any language",
        "Serve the HTTP API at http://HOST:PORT/v1 until a signal comes; what was begun is then finished. Clients need a token "
        "of `byref token create`.",
        (
            (
                "--host",
                {"metavar": "ADDRESS", "default": "127.0.0.1", "help": "default: 127.0.0.1, this machine alone"},
            ),
            ("--port", {"metavar": "N", "type": _port, "default": 8350, "help": "default: 8350; 0: any that is free"}),
        ),
        ("db", "blobs", "schema", "jail", "durability", "modules"),
    ),
    Verb(
        "inspect",
        "look at sessions in a browser: what was read, why, what it cost",
        "Serve the inspector's pages of one tenant on this machine alone until a signal comes, and print the link that opens them, "
        "once. They only read.",
        (
            ("--port", {"metavar": "N", "type": _port, "default": 0, "help": "default: any that is free"}),
            ("--open", {"action": "store_true", "help": "open the link in the browser"}),
        ),
        ("db", "blobs", "schema", "tenant"),
    ),
    Verb(
        "sweep",
        "delete what has expired and what nothing needs",
        "Turn expired artifacts into tombstones; delete old tombstones, idle sessions whose time is over, what was staged "
        "and never committed, and bytes that nothing needs any more. Any number of processes may sweep at once.",
        (),
        ("db", "blobs", "schema", "json"),
    ),
)

_DB = ("db", "schema", "json")

DB_VERBS = (
    Verb(
        "upgrade",
        "bring the tables to a revision",
        "Bring the tables to a revision, in one transaction; safe to run from many processes at once.",
        (("revision", {"metavar": "REVISION", "nargs": "?", "default": "head", "help": "default: head"}),),
        _DB,
    ),
    Verb(
        "downgrade",
        "take the tables back; what they hold is lost",
        "Take the tables back to a revision, in one transaction. What the later ones hold is lost: asks before; where nobody "
        "can be asked, --yes is needed.",
        (("revision", {"metavar": "REVISION", "help": "a revision, -1, or base: none of our tables"}), _YES),
        _DB,
    ),
    Verb(
        "current", "which revision the database is at", "Print the revision that the database is at, or none.", (), _DB
    ),
    Verb(
        "check",
        "exit 1 unless this byref works with the database",
        "Exit with 1 unless this byref works with the database as it is.",
        (),
        _DB,
    ),
    Verb(
        "verify",
        "exit 1 unless every invariant of the data holds",
        "Look at every invariant of the data, and print figures and each problem. Nothing is changed. Exit code 1 if there is a "
        "problem.",
        (("--deep", {"action": "store_true", "help": "unpack and hash all bytes, too, and list the store's objects"}),),
        ("db", "blobs", "schema", "json"),
    ),
    Verb(
        "history", "the revisions there are, oldest first", "List the revisions there are, oldest first.", (), ("json",)
    ),
)

TOKEN_VERBS = (
    Verb(
        "create",
        "make a token and print it, this once",
        "Make a bearer token for a tenant's clients of the HTTP API, and print it. The database keeps only its digest, so it cannot "
        "be printed again.",
        (
            ("--name", {"metavar": "NAME", "default": "", "help": "what people call it"}),
            (
                "--rights",
                {
                    "metavar": "NAMES",
                    "default": "read,chat",
                    "help": "some of read (look), chat (what a chat loop does), admin (delete, sweep), inspect (the inspector's "
                    "pages) and content (they show texts and data, too); default: read,chat",
                },
            ),
            ("--days", {"metavar": "N", "type": _limit, "help": "refuse it after so many days; default: never"}),
        ),
        ("db", "schema", "tenant", "json"),
    ),
    Verb("list", "the tokens there are", "List the tokens of all tenants, oldest first.", (), ("db", "schema", "json")),
    Verb(
        "revoke",
        "refuse a token from now on",
        "Refuse a token from now on.",
        (("id", {"metavar": "ID", "type": _limit, "help": "its number in the list"}),),
        ("db", "schema"),
    ),
)

GROUPS = (
    Group("db", "make, migrate and check the tables", DB_VERBS),
    Group("token", "make, list and revoke the tokens of clients of the HTTP API", TOKEN_VERBS),
)
