"""Options and arguments that several commands share, and their values in Python."""

from __future__ import annotations

import inspect
import json
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from csrr._base.progress import Line
from csrr._base.text import show_value, spell_arguments
from csrr.cli.help import SectionOption
from csrr.cli.output import Failure, say, say_warnings, show_option, spell_option, suggest_near
from csrr.model_parameters import OPTIONS
from csrr.parameters import Parameter, ParameterError, is_float, list_defaults
from csrr.registry import HOMES, MODELS
from csrr.rules import RULES

if TYPE_CHECKING:
    import csrr
    from csrr.data.ids import Id, IdMap


Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_model_option = partial(click.option, cls=SectionOption, section="Parameters of CSRR (of any model: -p)")
_log_option = partial(click.option, cls=SectionOption, section="How the log is read")


def parse_column(text: str) -> str | int | bool:
    """Return a position as int, "none" (for no such column) as False, a name as it is."""
    if text == "none":
        return False
    return int(text) if text.isdecimal() else text


def _make_column_option(role: str, what: str, flag: str = "") -> Callable[[Decorated], Decorated]:
    help = f"Column of {what}: its name or number, or none."
    return _log_option(flag or f"--{role}-column", role, type=parse_column, metavar="COLUMN", help=help)


LOG_OPTIONS = (
    _log_option("--min-rating", type=float, help="Take only events rated at least this."),
    _log_option("--min-weight", type=float, help="Take only pairs whose weights add up to at least this."),
    _make_column_option("user", "user ids"),
    _make_column_option("item", "item ids"),
    _make_column_option("rating", "ratings"),
    _make_column_option("weight", "weights, such as play counts"),
    _make_column_option("event", "event types, such as view and buy, which need --weight", "--event"),
    _log_option(
        "--weight",
        "weights",
        multiple=True,
        metavar="TYPE=NUMBER",
        help="The weight of an event type; repeated for each, 0 to leave one out.",
    ),
    _log_option("--target", metavar="TYPE", help="The event type to test on and to choose strengths by, such as buy."),
    _make_column_option("time", "times"),
    _make_column_option("title", "titles of items"),
    _log_option(
        "--ordered",
        is_flag=True,
        default=None,
        help="The events have no times, but are in the order in which they happened, oldest first.",
    ),
    _log_option("--separator", help="What separates the columns of a text; \\t for a tab."),
    _log_option("--header/--no-header", default=None, help="Whether the first line names the columns."),
    _log_option("--format", help="Name the format, where it is not recognized."),
    _log_option(
        "--on-bad-rows",
        type=click.Choice(["error", "skip"]),
        help="Whether a row without an id, or with a number or time that is none, is an error.  [default: error]",
    ),
    _log_option(
        "--missing",
        multiple=True,
        metavar="TEXT",
        help="A text that stands for a missing id, in place of NULL, nan, NA and the like; may be repeated.",
    ),
    _log_option("--table", metavar="TABLE", help="The log is a database, and its events are the rows of this table."),
    _log_option(
        "--sql",
        "--query",
        "query",
        metavar="QUERY",
        help="The log is a database, postgresql://host/shop or an SQLite file, and these are its events.",
    ),
)


class DeclaredType(click.ParamType):  # type: ignore[type-arg]
    """What a declared parameter of a model may be."""

    def __init__(self, declared: Parameter) -> None:
        self.declared = declared
        self.name = declared.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what a text stands for."""
        try:
            return self.declared.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _make_declared_option(each: Parameter) -> Callable[[Decorated], Decorated]:
    name = f"--{each.name.replace('_', '-')}"
    return _model_option(name, type=DeclaredType(each), metavar=each.placeholder, help=each.meaning)


MODEL_OPTIONS = tuple(_make_declared_option(each) for each in OPTIONS)
PARAM_OPTION = click.option(
    "-p", "--param", "param", multiple=True, metavar="NAME=VALUE", help="Any parameter of the model; may be repeated."
)
MODEL_NAMES = tuple(each.name for each in OPTIONS)


class NewFile(click.Path):
    """A file to write: its folder exists, and its name ends in one of `suffixes`, if there are any."""

    def __init__(self, *suffixes: str) -> None:
        super().__init__(path_type=Path)
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; raise an error now if no file can be put there later."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self.suffixes and path.suffix.lower() not in self.suffixes:
            option = "" if param is None else f"{param.opts[0]} "
            endings = " or".join(", ".join(self.suffixes).rsplit(",", 1))
            raise click.UsageError(f"{option}{path}: the name must end in {endings}", ctx)
        if path.is_dir():
            raise Failure(f"{path} is a folder; give the name of a file to write, such as {path / 'NAME'}")
        if not path.parent.is_dir():
            raise Failure(f"{path.parent}: there is no such folder; make it first, or give another name")
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                return path
        except OSError as error:
            raise OSError(error.errno, "cannot write to this folder", str(path.parent)) from error


PLOT_FILE = NewFile(".svg", ".html")
SHARE = click.FloatRange(0, 1, min_open=True)
COST = click.FloatRange(0, 1e300, min_open=True)
COUNT = click.IntRange(min=1)
model_output = click.option("-o", "--output", type=NewFile(), required=True, help="The model file to write.")

# Where a name of mixed case falls into words: Item|KNN, MC|Shift, CSRR|e.
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=[A-Z])(?=[a-z]$)")


def spell(name: str) -> str:
    """Return the name of a model on the command line: item-knn for ItemKNN, csrr-e for CSRRe."""
    return _WORDS.sub("-", name).lower()


KINDS = tuple(spell(name) for name in HOMES)

SPLITS = ("ratio", "last", "at")
"""The ways to split a log."""
_OF_SPLIT = {None: SPLITS, "user": ("ratio",), "last": ("ratio", "last"), "time": ("ratio", "at")}
split_option = click.option(
    "--split",
    type=click.Choice(["user", "last", "time"]),
    help="Hold out a random share of each user's events (user), their last one or share (last), or all from a time on"
    " of users and items that were there before (time).",
)


def check_split(options: Mapping[str, Any], *others: str) -> None:
    """Raise an error for ways to split a log that do not go together, with each other or with `others`."""
    by, ways = options["split"], [f"--{name}" for name in SPLITS if options[name] is not None]
    if by is not None and (others or not {*ways} <= {f"--{name}" for name in _OF_SPLIT[by]}):
        ways.insert(0, f"--split {by}")
    if len(chosen := [*others, *ways]) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} do not go together")


def read_split(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `csrr.split` that were given."""
    chosen = select_given(options, SPLITS)
    if "at" in chosen:
        chosen["at"] = parse_time_option(chosen["at"])
    return chosen | ({} if options["split"] is None else {"by": options["split"]})


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
spreadsheet_option = click.option(
    "--spreadsheet",
    is_flag=True,
    help="Write the CSV for a spreadsheet: texts that begin like a formula get an apostrophe in front.",
)
k_option = click.option("-k", type=COUNT, default=10, help="Length of the list.")
log_argument = click.argument("log", type=click.Path())
model_argument = click.argument("model", type=click.Path(path_type=Path))


def add_options(*options: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds options, in their order in the help."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


LOG_NAMES = tuple(str(each.name) for each in click.command(add_options(*LOG_OPTIONS)(lambda: None)).params)
"""The names of these options, which are those of the arguments of `csrr.read`."""


def select_given(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return those options that were given: the library knows the defaults of the others."""
    return {name: options[name] for name in names if options[name] not in (None, ())}


def read_log(source: str, options: Mapping[str, Any], *, newer_than: csrr.Recommender | None = None) -> csrr.Log:
    """Return the log at `source`, read as the options say; tell on stderr what its columns were taken for.

    With `newer_than`, of a database's table only events that this model has not seen.
    """
    import csrr

    if is_model_file(source):
        raise Failure(f"{source} is a model file, not a log; a log is a file of events: who chose what")
    arguments = select_given(options, LOG_NAMES)
    if "separator" in arguments:
        arguments["separator"] = arguments["separator"].replace("\\t", "\t")
    if "weights" in arguments:
        arguments["weights"] = _read_weights(arguments["weights"])
    line = Line()
    line.show(f"reading {name_source(source)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", csrr.DataWarning)  # said below
        log = csrr.read(source, **arguments) if newer_than is None else csrr.read_new(newer_than, source, **arguments)
    if log.columns is not None:
        line.clear()
        roles = log.columns.describe()
        types = "" if log.types is None else f"; event types: {log.types.describe()}"
        order = "; rows in order" if log.times is None and log.is_ordered else ""
        for told in (roles + order + types, *log.columns.notes):
            say(f"csrr: {name_source(source)}: {told}", err=True)
    return log


def spell_log_options(options: Mapping[str, Any]) -> list[str]:
    """Return the words of those options of reading that were given, as they stand on the command line."""
    words, given = list[str](), select_given(options, LOG_NAMES)
    for param in click.get_current_context().command.params:
        if param.name in given:
            words += spell_option(param, given[param.name])
    return words


def _read_weights(texts: Iterable[str]) -> dict[str, float]:
    """Return the weight of each type of events from texts like view=1."""
    weights: dict[str, float] = {}
    for text in texts:
        name, is_pair, number = text.rpartition("=")
        if not is_pair or not name or not is_float(number):
            raise click.UsageError(f"--weight {text}: write TYPE=NUMBER, such as view=1")
        if name in weights:
            raise click.UsageError(f"--weight {text}: {name} is given twice")
        weights[name] = float(number)
    return weights


def name_source(source: str) -> str:
    """Return the last part of a path or an address, in which no password stands."""
    if "://" not in source:
        return os.path.basename(os.path.normpath(source))
    return source.partition("?")[0].rpartition("@")[2].rstrip("/").rpartition("/")[2]


def list_kinds() -> dict[str, type[csrr.Recommender]]:
    """Return the models by their names on the command line."""
    return {spell(name): kind for name, kind in MODELS.items()}


def complete_kind(ctx: click.Context, param: click.Parameter, text: str) -> list[str]:
    """Return the names of models that begin so, for the shell."""
    return [name for name in KINDS if name.startswith(text)]


def _read_kind(context: click.Context, option: click.Parameter, text: str) -> type[csrr.Recommender]:
    kind: type[csrr.Recommender] | None = MODELS.find(text)
    if kind is None:
        raise click.UsageError(f"--model {text}: there is no such model{explain_no_kind(text)}", context)
    return kind


kind_option = click.option(
    "--model",
    default="csrr",
    metavar="NAME",
    callback=_read_kind,
    shell_complete=complete_kind,
    help=f"The kind of model: {', '.join(KINDS)}.",
)


def explain_no_kind(text: str) -> str:
    """Return what to say of a word that names no model."""
    return suggest_near(text.lower(), list_kinds()) or f"; there are {', '.join(list_kinds())}"


def make_model(
    kind: type[csrr.Recommender], options: Mapping[str, Any], *, shared: Iterable[str] = ()
) -> csrr.Recommender:
    """Return a new model with the parameters that were given.

    Of the options in `shared`, which mean something to the command too, the model gets those that it has.
    """
    known = list_defaults(kind)
    params = {
        name: value
        for name, value in select_given(options, MODEL_NAMES).items()
        if name in known or name not in set(shared)
    }
    for name in params:
        if name not in known:
            raise click.UsageError(f"{show_option(name)}: {_explain_lack(kind, known, name)}")
    for text in options["param"]:
        name, value = read_param(text)
        if name not in known:
            raise click.UsageError(f"-p {text}: {_explain_lack(kind, known, name)}")
        if name in params:
            raise click.UsageError(f"-p {text}: {name} is given twice")
        params[name] = value
    return kind(**params)


def read_param(text: str) -> tuple[str, Any]:
    """Return the parameter that NAME=VALUE names and its value."""
    name, is_pair, value = text.partition("=")
    if not is_pair:
        raise click.UsageError(f"-p {text}: write NAME=VALUE")
    return name.strip().replace("-", "_"), _read_value(value.strip())


def _explain_lack(kind: type[csrr.Recommender], known: Iterable[str], name: str) -> str:
    has = ", ".join(known)
    hint = suggest_near(name, known) or ("; it has " + (f"{has} (-p NAME=VALUE)" if has else "none"))
    return f"{kind.__name__} has no such parameter{hint}"


def _read_value(text: str) -> Any:
    """Return what JSON makes of `text`, several numbers as a list, or `text`."""
    try:
        # JSON has no .5
        return json.loads(re.sub(r"^(-?)\.(?=[0-9])", r"\g<1>0.", text))
    except ValueError:
        numbers = text.split(",")
        return [float(each) for each in numbers] if len(numbers) > 1 and all(map(is_float, numbers)) else text


def parse_time_option(text: str | None) -> float | str | None:
    """Return a time as a number where it is one."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def fit_model(
    model: csrr.Recommender, events: csrr.Log, line: Line, *, by: Callable[..., Any] | None = None, **options: Any
) -> None:
    """Fit the model, `by` its `fit` unless another method is given, showing its steps where it tells them."""
    line.aim = getattr(model, "tol", None)
    fit = model.fit if by is None else by
    tells = "callback" in inspect.signature(fit).parameters
    with say_warnings():
        fit(events, **options, **({"callback": line.step} if tells else {}))


def check_can(model: csrr.Recommender, method: str, what: str) -> None:
    """Raise a `Failure` that names the models with `method`, unless this one has it; `what` it does, in words."""
    if not type(model).can(method):
        able = ", ".join(name for name, kind in MODELS.items() if kind.can(method))
        raise Failure(f"{type(model).__name__} does not {what}; these do: {able}")


_item_option = partial(click.option, cls=SectionOption, section="Facts about items")
_rule_option = partial(click.option, cls=SectionOption, section="Rules for the lists, about columns of the item table")
ITEM_OPTIONS = (
    _item_option("--items", "items_file", metavar="FILE", help="An item table: titles, categories, prices, dates."),
    _item_option(
        "--items-id", type=parse_column, metavar="NAME|POSITION", help="Column of ids in the item table, if not found."
    ),
)
RULE_OPTIONS = tuple(
    _rule_option(each.flag, multiple=each.repeated, type=each.type, metavar=each.metavar, help=each.help)
    for rule in RULES.values()
    for each in rule.options
)


USER_OPTION = click.option(
    "--users",
    "users_file",
    metavar="FILE",
    cls=SectionOption,
    section="Facts about items",
    help="A table of people: what those without a history are like.",
)
_TELLS = ("items", "users")


def read_features(model: csrr.Recommender, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of --items and --users, as `fit` and `update` of a model take them.

    One that says nothing of what items have in common is left to `set_items`, and models that take none get none.
    """
    import csrr

    tells = set(_TELLS) & set(inspect.signature(model.fit).parameters)
    if options.get("users_file") is not None and "users" not in tells:
        raise Failure(f"--users: {type(model).__name__} knows people by their history alone; fit a CSRR or CSRRe")
    found = {}
    for name in _TELLS:
        source = options.get(f"{name}_file")
        if source is None or name not in tells:
            continue
        id = options["items_id"] if name == "items" else None
        with spell_arguments(partial(show_option, item="items_id", id="items_id")):
            table = csrr.read_features(source, id=id, kind="user" if name == "users" else "item")
        if name == "users" or model.is_fitted or table.has_features():
            found[name] = table
        else:
            say("csrr: --items: no two items have a value in common, so scores do not use the table", err=True)
    return found


def set_items(model: csrr.Recommender, options: Mapping[str, Any]) -> None:
    """Give a model the item table of --items, where there is one."""
    if getattr(model, "features_", None) is not None and model.item_table_ is not None:
        return
    table = read_item_table(options)
    if table is not None:
        model.set_items(table)


def read_item_table(options: Mapping[str, Any]) -> csrr.ItemTable | None:
    """Return the item table of --items, where there is one."""
    import csrr

    if options["items_file"] is not None:
        with spell_arguments(partial(show_option, item="items_id", id="items_id")):
            return csrr.read_features(options["items_file"], id=options["items_id"]).to_item_table()
    if options["items_id"] is not None:
        raise click.UsageError("--items-id goes with --items")
    return None


def read_rule_options(options: Mapping[str, Any], known: IdMap) -> dict[str, Any]:
    """Return the rules that were given, as `Recommender.recommend` takes them."""
    rules = {}
    for name, rule in RULES.items():
        given = {each.name: options[each.name] for each in rule.options}
        try:
            rules[name] = rule.read(given, lambda text: as_id(text, known))
        except ParameterError as error:
            raise click.UsageError(str(error)) from None
    return {name: value for name, value in rules.items() if value is not None}


def as_id(text: str, known: IdMap) -> Id:
    """Return an id as the model has it: an integer where ids are integers and `text` is one."""
    is_integer = known.ids.dtype != object and re.fullmatch(r"\s*-?[0-9]+\s*", text)
    return int(text) if is_integer else text


@contextmanager
def name_known_ids(model: csrr.Recommender) -> Iterator[None]:
    """Add examples of the ids of a model to an error about an unknown one."""
    import csrr

    try:
        yield
    except csrr.UnknownIdError as error:
        ids, kind = getattr(model, f"{error.kind}s_").ids, error.kind
        some = ", ".join(show_value(each) for each in ids[:3].tolist())
        words = f"{error.args[0]}; the model has {len(ids):,} {kind}s, such as {some}"
        hint = error.hint if "unknown" in click.get_current_context().params else ""
        raise csrr.UnknownIdError(words, ids=error.ids, kind=kind, hint=hint) from None


def as_ids(texts: Iterable[str], known: IdMap, *, unknown: str) -> list[Id]:
    """Return several ids of items, each given alone or, where that is no id itself, in a list with commas."""
    found: list[Id] = []
    for text in texts:
        parts = [text] if as_id(text, known) in known else [part.strip() for part in text.split(",")]
        found += [as_id(part, known) for part in parts if part]
    if unknown == "raise" and known.ids.dtype != object and (strangers := [id for id in found if isinstance(id, str)]):
        known.rows(strangers, "item")
    return found


MODEL_NAME = "model.csrr"
"""What `csrr start` calls the model in its folder."""


def load_model(path: Path) -> Any:
    """Return the model in a file; Failure, with what to do, where there is no such file."""
    import csrr

    find_model(path)
    return csrr.load(path)


def find_model(path: Path) -> None:
    """Raise an error that says what to do if there is no file at a path."""
    if path.is_dir():
        inside = path / MODEL_NAME
        hint = f"did you mean {inside}?" if inside.exists() else "give the path of a file that csrr fit wrote"
        raise Failure(f"{path} is a folder, not a model file; {hint}")
    if not path.exists():
        folder = path.parent
        siblings = [each.name for each in folder.iterdir() if each.suffix == path.suffix] if folder.is_dir() else []
        near = suggest_near(path.name, siblings, 0.8)
        raise Failure(f"there is no model file {path}{near or f'; csrr fit LOG -o {path} makes one'}")


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a model."""
    from csrr.models.store import MAGIC

    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def check_expendable(path: Path, otherwise: str = "") -> None:
    """Raise an error if `path` holds something that is not a model: perhaps the log; `otherwise` is what else to do."""
    if path.exists() and path.stat().st_size and not is_model_file(path):
        raise Failure(f"{path} exists and is no model; give another name{otherwise}")
