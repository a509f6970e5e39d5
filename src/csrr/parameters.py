"""A parameter is declared once: its name, its values, the parameters that exclude it, and its meaning.

From a declaration come the checks of a fit, the option of the command line, the rivals in tuning and the text of the
documentation. A model names it as a type:

    Shrink = Annotated[float, Number("Added to every denominator.", least=0)]

    @declare
    class Model(Recommender):
        shrink: Shrink = 10.0

`declare` makes the `__init__`, which only stores, and `check_params` checks what was stored. The name of
the field is the parameter's, and the type says whether None may be given, and which texts: `float | Literal["auto"]`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
import os
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, dataclass_transform, get_args, get_origin

from csrr._base.text import show_argument

Kind = TypeVar("Kind", bound=type)
Named = TypeVar("Named")


class ParameterError(ValueError):
    """Raised for an invalid parameter; the message names it and says what is valid.

    Parameters
    ----------
    message
        The message.
    parameter
        The name of the parameter, where it is one alone.
    value
        The value that it must not have.
    hint
        The valid values or, for an unknown name, the one that may be meant.

    Examples
    --------
    >>> try:
    ...     csrr.EASE(reg=-1).fit({"user": [1], "item": [2]})
    ... except csrr.ParameterError as error:
    ...     error.parameter, error.value
    ('reg', -1)
    """

    def __init__(
        self, message: str = "", *, parameter: str | None = None, value: Any = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.parameter, self.value, self.hint = parameter, value, hint

    @classmethod
    def of(cls, parameter: str, value: Any, hint: str) -> Self:
        """Return the error for a value of a parameter.

        Parameters
        ----------
        parameter
            The name of the parameter.
        value
            The value that it must not have.
        hint
            The valid values, as "must be ...", or another sentence on what to do.

        Returns
        -------
        error
            An error, whose message begins with the parameter and its value.
        """
        between = " " if hint.startswith(_VERBS) else ": "
        given = show_argument(parameter, value)
        return cls(f"{given}{between}{hint}", parameter=parameter, value=value, hint=hint)


_VERBS = ("must ", "needs ", "is ", "has ", "goes ", "does ", "names ", "gives ", "holds ", "keeps ", "and ")
"""How a hint begins that goes on where the value ends."""


class UnknownArgumentError(ParameterError, TypeError):
    """Raised for an argument with an unknown name; the message suggests a known one."""


class ArgumentTypeError(ParameterError, TypeError):
    """Raised for an argument of a wrong type; the message names the right one."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """The values that a parameter may have, and its meaning.

    `words` are texts that may stand in place of a value, `optional` says that None may; in a declaration the type says
    both, and the field the name. Parameters that set the same `quantity` exclude each other, but for those
    `given_with`, which set it together. `value_name` stands for a value in the help, `noun` in an error of the command
    line; both are empty where words are all that it takes.
    """

    value_name: ClassVar[str] = ""
    noun: ClassVar[str] = ""

    meaning: str = dataclasses.field(default="", kw_only=False)
    name: str = ""
    words: tuple[str, ...] = ()
    optional: bool = False
    quantity: str = ""
    given_with: tuple[str, ...] = ()

    def check(self, value: Any) -> None:
        """Raise ParameterError unless a value is one that the parameter may have."""
        is_word = (value is None and self.optional) or (isinstance(value, str) and value in self.words)
        if not is_word and not self.allows(value):
            words = ["None"] * self.optional + [f'"{word}"' for word in self.words]
            raise ParameterError.of(self.name, value, f"must be {self.describe(words)}")

    def allows(self, value: Any) -> bool:
        """Return whether the parameter may have a value other than a word or None."""
        return False

    def describe(self, words: list[str]) -> str:
        """Return the values that the parameter may have; `words` are those in place of a value, in quotes."""
        return " or ".join(words)

    def read(self, text: str) -> Any:
        """Return the value that a text of the command line stands for; ValueError if it stands for none."""
        if text in self.words:
            return text
        if (value := self._parse(text)) is None:
            if not self.noun:
                raise ValueError(f"{text!r} is not one of {', '.join(self.words)}")
            kinds = f"neither {' nor '.join([self.noun, *self.words])}" if self.words else f"not {self.noun}"
            raise ValueError(f"{text!r} is {kinds}")
        return value

    def _parse(self, text: str) -> Any:
        """Return the value that a text spells, None if it spells none."""

    @property
    def placeholder(self) -> str:
        """The text that stands for a value in the help."""
        return "|".join(filter(None, [self.value_name, *self.words]))


@dataclass(frozen=True, kw_only=True)
class Number(Parameter):
    """A finite number, > `above` or >= `least`, and < `below` or <= `most`."""

    value_name = "NUMBER"
    noun = "a number"
    above: float | None = None
    least: float | None = None
    below: float = math.inf
    most: float = math.inf

    def allows(self, value: Any) -> bool:
        """Return whether a value is a number in the range."""
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        # A whole number may be too large for a float.
        number = value if isinstance(value, int) else float(value)
        is_low_enough = abs(number) <= sys.float_info.max and number <= self.most and number < self.below
        above, least = (-math.inf if bound is None else bound for bound in (self.above, self.least))
        return is_low_enough and number > above and number >= least

    def describe(self, words: list[str]) -> str:
        """Return the values that the parameter may have."""
        upper = {sign: f"{bound:g}" for sign, bound in (("<", self.below), ("<=", self.most)) if bound < math.inf}
        bounds = {">": self.above, ">=": self.least, **upper}
        limits = " and ".join(f"{sign} {bound}" for sign, bound in bounds.items() if bound is not None)
        return " or ".join([f"a number {limits}" if limits else "a finite number", *words])

    def _parse(self, text: str) -> Any:
        return float(text) if is_float(text) else None


@dataclass(frozen=True, kw_only=True)
class Numbers(Number):
    """A number, or several different ones, at most `count`."""

    value_name = "NUMBER|NUMBER,..."
    noun = "a number, or several like 0.3,0.8"
    count: int = 1

    def allows(self, value: Any) -> bool:
        """Return whether a value is such a number, or a list of them."""
        each = list(value) if isinstance(value, list | tuple) else [value]
        return all(map(super().allows, each)) and 0 < len(set(each)) == len(each) <= self.count

    def describe(self, words: list[str]) -> str:
        """Return the values that the parameter may have."""
        return " or ".join([super().describe([]), f"up to {self.count} different such numbers", *words])

    def _parse(self, text: str) -> Any:
        parts = text.split(",")
        if not all(is_float(part) for part in parts):
            return None
        return float(text) if len(parts) == 1 else [float(part) for part in parts]


@dataclass(frozen=True, kw_only=True)
class Whole(Parameter):
    """A whole number >= `least`, and no larger than what an index can be."""

    value_name = "NUMBER"
    noun = "a whole number"
    least: int = 0

    def check(self, value: Any) -> None:
        """Raise ParameterError unless a value is one that the parameter may have."""
        if is_whole(value, sys.maxsize + 1):
            raise ParameterError.of(self.name, value, f"must be at most {sys.maxsize}")
        super().check(value)

    def allows(self, value: Any) -> bool:
        """Return whether a value is a whole number in the range."""
        return is_whole(value, self.least) and value <= sys.maxsize

    def describe(self, words: list[str]) -> str:
        """Return the values that the parameter may have."""
        return " or ".join([f"a whole number >= {self.least}", *words])

    def _parse(self, text: str) -> Any:
        return int(text) if re.fullmatch(r"-?[0-9]+", text) else None


@dataclass(frozen=True, kw_only=True)
class Choice(Parameter):
    """One of several words."""

    def describe(self, words: list[str]) -> str:
        """Return the values that the parameter may have."""
        return super().describe(words) if len(words) < 3 else f"one of {', '.join(self.words)}"


@dataclass(frozen=True, kw_only=True)
class Duration(Parameter):
    """A time above 0: a number of days, a text like "90d", "12h" or "2 weeks", or a timedelta."""

    value_name = "DAYS|90d"
    noun = "a number of days, nor a time like 90d or 12h"

    def allows(self, value: Any) -> bool:
        """Return whether a value is such a time."""
        return count_days(value) is not None

    def describe(self, words: list[str]) -> str:
        """Return the values that the parameter may have."""
        return " or ".join(['a number of days > 0, a text like "90d", "12h" or "2 weeks", or a timedelta', *words])

    def _parse(self, text: str) -> Any:
        value = float(text) if is_float(text) else text
        return value if self.allows(value) else None


@dataclass(frozen=True, kw_only=True)
class Service(Parameter):
    """An object with these `methods`, which only a Python program can give, or a word for one: no file keeps it."""

    methods: tuple[str, ...] = ()

    def allows(self, value: Any) -> bool:
        """Return whether a value has the methods."""
        return all(callable(getattr(value, each, None)) for each in self.methods)

    def describe(self, words: list[str]) -> str:
        """Return the values that the parameter may have."""
        return " or ".join([f"an object with the methods {', '.join(self.methods)}", *words])


_UNITS = {"s": 1 / 86_400, "min": 1 / 1_440, "h": 1 / 24, "d": 1.0, "w": 7.0, "y": 365.25}
_WORDS = {"second": "s", "minute": "min", "hour": "h", "day": "d", "week": "w", "year": "y"}
_DURATION = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]+)\s*", re.IGNORECASE)


def read_days(name: str, value: Any) -> float:
    """Return a time as a number of days; ParameterError if it is not a time."""
    Duration(name=name).check(value)
    days = count_days(value)
    assert days is not None
    return days


def count_days(value: Any) -> float | None:
    """Return a time as a number of days, or None if it is not a time above 0."""
    if isinstance(value, timedelta):
        value = value / timedelta(days=1)
    elif isinstance(value, str):
        found = _DURATION.fullmatch(value)
        unit = "" if found is None else found[2].lower()
        unit = _WORDS.get(unit.removesuffix("s"), unit)
        if found is None or unit not in _UNITS:
            return None
        value = float(found[1]) * _UNITS[unit]
    return float(value) if is_number(value, above=0) else None


def is_float(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_number(value: Any, **limits: Any) -> bool:
    """Return whether a value is a finite number within the limits of `Number`."""
    return Number(**limits).allows(value)


def is_whole(value: Any, least: int) -> bool:
    """Return whether a value is a whole number >= least."""
    number: Any = value
    return isinstance(value, Integral) and not isinstance(value, bool) and bool(number >= least)


def check_number(name: str, value: Any, **limits: Any) -> None:
    """Raise ParameterError unless a value is a finite number within the limits of `Number`."""
    Number(name=name, **limits).check(value)


def check_texts(name: str, value: Any, example: str) -> None:
    """Raise ParameterError unless a value is None or a list of texts, such as `example`."""
    is_list = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    is_list = is_list and getattr(value, "ndim", 1) == 1
    if value is not None and not (is_list and all(isinstance(each, str) for each in value)):
        raise ParameterError.of(name, value, f"must be a list of {example}")


def check_seed(seed: Any) -> None:
    """Raise ParameterError unless a value seeds random numbers: a whole number >= 0, or several."""
    parts = seed if isinstance(seed, list | tuple) and seed else [seed]
    if not all(is_whole(each, 0) for each in parts):
        raise ParameterError.of("seed", seed, "must be a whole number >= 0")


def check_whole(name: str, value: Any, *, least: int) -> None:
    """Raise ParameterError unless a value is a whole number >= least."""
    Whole(name=name, least=least).check(value)


# Models that declare their parameters


def parameter(*, default: Any, kw_only: bool = True) -> Any:
    """Return a parameter's default, for one that may also be given by its position."""
    return dataclasses.field(default=default, kw_only=kw_only)


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
def declare(kind: Kind) -> Kind:
    """Make the `__init__` of a model from its declared parameters: it stores them, and does no more."""
    made: Any = explain_names(dataclass(eq=False, repr=False, kw_only=True)(kind))
    result: Kind = made
    return result


@functools.cache
def list_parameters(kind: type) -> Mapping[str, Parameter]:
    """Return the declared parameters of a model by name, in the order of its signature."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    found = {each.name: _find_declaration(kind, each) for each in fields}
    return types.MappingProxyType({name: declared for name, declared in found.items() if declared is not None})


def list_plain_params(model: Any) -> dict[str, Any]:
    """Return the values of a model's parameters by name, without services, which no file keeps."""
    kind: Any = type(model)
    declared = list_parameters(kind)
    return {name: value for name, value in model.get_params().items() if not isinstance(declared.get(name), Service)}


@functools.cache
def list_defaults(kind: type) -> Mapping[str, Any]:
    """Return the default of each parameter of a model, declared or not."""
    signature = inspect.signature(kind).parameters
    return types.MappingProxyType({each.name: each.default for each in signature.values()})


def list_rivals(name: str, declared: Mapping[str, Parameter]) -> tuple[str, ...]:
    """Return the parameters that set the quantity of another, and must be left out where it is given."""
    own = declared.get(name, Parameter())
    return tuple(
        each.name
        for each in declared.values()
        if own.quantity and each.quantity == own.quantity and each.name not in (name, *own.given_with)
    )


def check_params(params: Mapping[str, Any], declared: Iterable[Parameter]) -> None:
    """Raise ParameterError for the first of several values that its parameter may not have."""
    for each in declared:
        each.check(params[each.name])


def _find_declaration(kind: type, field: dataclasses.Field[Any]) -> Parameter | None:
    hint: Any = field.type
    if isinstance(hint, str):
        home = next(each for each in kind.__mro__ if field.name in inspect.get_annotations(each))
        # An annotation in the source of the class, as typing.get_type_hints has it.
        hint = eval(hint, vars(sys.modules[home.__module__]))  # noqa: S307
    is_declared = get_origin(hint) is Annotated and any(isinstance(each, Parameter) for each in get_args(hint))
    return read_declaration(hint, field.name) if is_declared else None


def read_declaration(hint: Any, name: str) -> Parameter:
    """Return the parameter that an annotated type declares, with a name, and the words or choices of the type."""
    kind, *marks = get_args(hint)
    declared = next(each for each in marks if isinstance(each, Parameter))
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    texts = tuple(text for each in kinds if get_origin(each) is Literal for text in get_args(each))
    return dataclasses.replace(declared, name=name, optional=types.NoneType in kinds, words=texts)


# Wrong names and kinds of arguments

OTHER_NAMES = {
    "k": "N n K top_k topk num_items n_items n_recommendations",
    "rank": "factors n_factors num_factors no_components n_components embedding_size features latent_dim dim",
    "max_rank": "factors n_factors rank n_components",
    "neighbors": "K k nnbrs max_nbrs n_neighbors topk",
    "reg": "regularization reg_weight lambda_ l2 l2_norm alpha",
    "reg_low_rank": "regularization reg lambda_",
    "confidence": "alpha weight",
    "max_iter": "iterations n_iter num_iterations n_iterations epochs n_epochs",
    "epochs": "iterations n_iter num_iterations n_epochs max_iter",
    "learning_rate": "lr eta",
    "threads": "num_threads n_threads n_jobs workers nthreads",
    "seed": "random_state random_seed rng",
    "exclude_seen": "filter_already_liked_items filter_viewed filter_seen remove_seen",
    "exclude": "filter_items exclude_items filter_users",
    "candidates": "items items_to_recommend item_ids candidate_items users",
    "users": "user userid user_id user_ids",
    "user": "userid user_id user_col users",
    "item": "itemid item_id item_col items",
    "data": "user_items interactions dataset ratings X log train",
    "verbose": "show_progress progress",
    "path": "filename file",
    "columns": "add_columns",
}
"""The names that other libraries have for our parameters."""


def explain_names(what: Named) -> Named:
    """Return a function, or a class with methods, whose errors on wrong arguments suggest right ones.

    A class is changed in place, with those above it that are ours: its public methods. A function that takes any name
    calls `refuse_names` itself.
    """
    if inspect.isfunction(what):
        made = _explain_call(what, what.__name__)
        # Where pickle looks for it.
        setattr(sys.modules[what.__module__], what.__name__, made)
        return made  # type: ignore[no-any-return]
    for kind in what.__mro__ if inspect.isclass(what) else ():
        if kind.__module__.split(".")[0] == "csrr" or kind is what:
            for name, each in list(vars(kind).items()):
                if (name == "__init__" or not name.startswith("_")) and inspect.isfunction(each):
                    setattr(kind, name, _explain_call(each, kind.__name__ if name == "__init__" else name))
                elif not name.startswith("_") and isinstance(each, classmethod | staticmethod):
                    setattr(kind, name, type(each)(_explain_call(each.__func__, name)))
    return what


def _explain_call(function: Any, name: str) -> Any:
    if hasattr(function, "is_explained"):
        return function
    takes_any = bool(inspect.unwrap(function).__code__.co_flags & inspect.CO_VARKEYWORDS)

    def explain(args: Any, named: dict[str, Any], error: Exception) -> None:
        signature = inspect.signature(function)
        if not takes_any and isinstance(error, TypeError):
            refuse_names(name, named, [each for each in signature.parameters if each != "self"])
        if function.__module__.split(".")[0] == "csrr":
            _refuse_kinds(signature, args, named)

    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except (TypeError, AttributeError) as error:
            # If all names and kinds are right, the error stands.
            explain(args, named, error)
            raise

    # As if it stood where the function stands: doctest looks there.
    made = types.FunctionType(call.__code__, function.__globals__, function.__name__, None, call.__closure__)
    functools.update_wrapper(made, function).is_explained = True  # type: ignore[attr-defined]
    return made


_KINDS: dict[str, tuple[Any, str, str]] = {
    "None": (types.NoneType, "None", ""),
    "bool": (bool, "True or False", ""),
    "int": (Integral, "a whole number", "whole numbers"),
    "float": (Real, "a number", "numbers"),
    "str": (str, "a text", "texts"),
    "os.PathLike": (os.PathLike, "a path", "paths"),
    "Sequence": (Iterable, "a list", "lists"),
    "Mapping": (Mapping, "a dict", "dicts"),
    "RuleOptions": (Mapping, "a dict of rules", ""),
    "Callable": (Callable, "a function", "functions"),
    "Recommender": (None, "a model, such as csrr.EASE()", "models"),
    "Evaluation": (None, "an Evaluation", "Evaluations, which csrr.evaluate returns"),
}
"""By the names in annotations: the type, None where its name is enough, and words for one value and for several."""


def _refuse_kinds(signature: inspect.Signature, args: Any, named: dict[str, Any]) -> None:
    """Raise ArgumentTypeError for the first argument that is not of a kind that its annotation names."""
    try:
        given = signature.bind_partial(*args, **named).arguments
    except TypeError:
        return
    for name, value in given.items():
        kinds = str(signature.parameters[name].annotation).split(" | ")
        if not any(_is_of_kind(value, kind) for kind in kinds):
            wanted = " or ".join(dict.fromkeys(_describe_kind(kind) for kind in kinds))
            shown = repr(value)
            shown = shown if len(shown) <= 60 and "\n" not in shown else f"a value of type {type(value).__name__}"
            what = f"{name} must be {wanted}, not {shown}"
            raise ArgumentTypeError(what, parameter=name, value=value, hint=f"must be {wanted}")


def _is_of_kind(value: Any, kind: str) -> bool:
    """Return whether a value is of a kind as annotations name it; a kind that is not known may be any."""
    head, _, inside = kind.partition("[")
    wanted = _KINDS.get(head, (object,))[0]
    if wanted is None or head == "bool":
        return any(each.__name__.rstrip("_") == head for each in type(value).__mro__)
    if not isinstance(value, wanted):
        return False
    if head in ("Mapping", "Sequence") and isinstance(value, Collection) and not isinstance(value, str):
        values = value.values() if isinstance(value, Mapping) and head == "Mapping" else value
        return all(_is_of_kind(each, inside[:-1].split(", ", 1)[-1]) for each in values)
    return True


def _describe_kind(kind: str) -> str:
    head, _, inside = kind.partition("[")
    several = _KINDS.get(inside[:-1].split(", ", 1)[-1], ("", "", ""))[2] if head in ("Mapping", "Sequence") else ""
    return f"{_KINDS[head][1]} of {several}" if several else _KINDS[head][1]


def refuse_names(where: str, names: Iterable[str], valid: Iterable[str]) -> None:
    """Raise UnknownArgumentError for the first of several names that is not valid."""
    known = list(valid)
    for name in names:
        if name in known:
            continue
        ours = [each for each in known if name in OTHER_NAMES.get(each, "").split()]
        near = difflib.get_close_matches(name, known, 1, 0.7)
        if near and not ours:
            hint = f"did you mean {near[0]!r}?"
        else:
            hint = f"it is called {ours[0]!r} here" if ours else f"it has: {', '.join(known) or 'none'}"
        raise UnknownArgumentError(f"{where} has no parameter {name!r}; {hint}", parameter=name, hint=hint) from None
