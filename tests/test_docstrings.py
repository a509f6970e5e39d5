"""Every public name says what it takes, what it has and what it returns; its examples run."""

import ast
import dataclasses
import doctest
import inspect
import re
import runpy
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

import csrr
from csrr.parameters import list_parameters
from csrr.registry import HOMES
from csrr.rules import RULES

NAMES = [
    name for name in csrr.__all__ if inspect.isclass(getattr(csrr, name)) or inspect.isroutine(getattr(csrr, name))
]
SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def sections(doc):
    """Return the sections of a docstring by name; what stands before them is under ""."""
    first, *rest = SECTION.split(inspect.cleandoc(doc or ""))
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def entries(text):
    """Return what a section names, in order, and what it says of each."""
    found = {}
    names = []
    for line in text.strip("\n").splitlines():
        if line and not line.startswith(" "):
            names = line.split(", ")
            found |= dict.fromkeys(names, "")
        for name in names if line.startswith(" ") else ():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def parameters(function):
    """Return the names of a function's parameters, as its docstring should have them."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = inspect.signature(function).parameters.values()
    return [stars.get(each.kind, "") + each.name for each in found if each.name not in ("self", "cls")]


def ours(kind):
    """Return the classes of this package that a class is made of."""
    return [each for each in kind.__mro__ if each.__module__.startswith("csrr")]


def attributes(kind):
    """Return the public attributes of a class: fields, slots, what is annotated, and what `fit` sets (`name_`)."""
    if issubclass(kind, csrr.Recommender):
        return fitted_attributes(kind)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if hasattr(kind, "_fields"):
        return list(kind._fields)
    found = [name for each in ours(kind) for name in (*vars(each).get("__slots__", ()), *inspect.get_annotations(each))]
    found += [name for each in ours(kind) for name in stored(each)]
    return [name for name in dict.fromkeys(found) if not name.startswith("_")]


def stored(kind):
    """Return the attributes that the code of a class sets and that are named as fitted ones are: `name_`."""
    nodes = (node for node in ast.walk(ast.parse(inspect.getsource(kind))) if isinstance(node, ast.Attribute))
    return [node.attr for node in nodes if isinstance(node.ctx, ast.Store) and node.attr.endswith("_")]


def fitted_attributes(kind):
    """Return what a fit of a model sets, its own before what all models have; factors only where it has any."""
    contract = ours(csrr.Recommender)[::-1]
    kinds = [*(each for each in ours(kind) if each not in contract), *contract]
    found = [name for each in kinds for name in (*inspect.get_annotations(each), *stored(each))]
    absent = () if kind.has_factors or kind is csrr.Recommender else ("user_factors_", "item_factors_")
    return [name for name in dict.fromkeys(found) if re.fullmatch(r"[^_].*_", name) and name not in absent]


def members(kind):
    """Return the public functions, and the public properties, of a class by name."""
    found = {name: member for each in reversed(ours(kind)) for name, member in vars(each).items() if name[0] != "_"}
    properties = {name: each for name, each in found.items() if isinstance(each, property | cached_property)}
    kinds = (staticmethod, classmethod)
    functions = {
        name: getattr(kind, name) for name, each in found.items() if inspect.isfunction(each) or isinstance(each, kinds)
    }
    return functions, properties


def section_problems(name, found, expected, section):
    """Yield what is wrong with a section that should name `expected`."""
    named = entries(found.get(section, ""))
    if list(named) != list(expected):
        yield f"{name}: {section} names {list(named)}, not {list(expected)}"
    yield from (f"{name}: {section} says nothing of {each}" for each, said in named.items() if not said)


def function_problems(name, function):
    """Yield what is wrong with the docstring of a function."""
    found = sections(inspect.getdoc(function))
    if not found[""].strip():
        yield f"{name}: no docstring"
    yield from section_problems(name, found, parameters(function), "Parameters")
    returned = inspect.signature(function).return_annotation
    if returned not in (None, "None") and not {"Returns", "Yields"} & found.keys():
        yield f"{name}: no Returns"
    for section in ("Returns", "Yields", "Raises"):
        yield from (
            f"{name}: {section} says nothing of {each}"
            for each, said in entries(found.get(section, "")).items()
            if not said
        )


def class_problems(name, kind):
    """Yield what is wrong with the docstrings of a class and its members."""
    found = sections(kind.__doc__)
    if not found[""].strip():
        yield f"{name}: no docstring"
    if issubclass(kind, BaseException):
        return
    functions, properties = members(kind)
    expected, named = attributes(kind), entries(found.get("Attributes", ""))
    # A property has a docstring of its own, and may stand among the attributes too.
    yield from section_problems(
        name,
        {"Attributes": found.get("Attributes", "")},
        [*expected, *(each for each in named if each in properties)],
        "Attributes",
    )
    if issubclass(kind, csrr.Recommender) or not (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        yield from section_problems(name, found, parameters(kind), "Parameters")
    for each, member in properties.items():
        doc = member.func.__doc__ if isinstance(member, cached_property) else member.__doc__
        if not doc:
            yield f"{name}.{each}: no docstring"
    for each, function in functions.items():
        yield from function_problems(f"{name}.{each}", function)


def problems(name):
    """Return what is wrong with the docstrings of a public name."""
    public = getattr(csrr, name)
    found = list(class_problems(name, public) if inspect.isclass(public) else function_problems(name, public))
    if "Examples" not in sections(inspect.getdoc(public)) and not (
        inspect.isclass(public) and issubclass(public, BaseException)
    ):
        found.append(f"{name}: no Examples")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_sections(name):
    assert problems(name) == []


@pytest.mark.parametrize("name", HOMES)
def test_parameters_of_a_model_say_what_is_declared(name):
    kind = getattr(csrr, name)
    declared = {each: parameter.meaning for each, parameter in list_parameters(kind).items()}
    assert entries(sections(kind.__doc__).get("Parameters", "")) == declared, "run python docs/write_docstrings.py"


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    said = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(
        getattr(csrr, name), name, globs={"csrr": csrr, "np": np}
    ):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
    assert runner.tries or name.endswith("Error")


def good(first, second=2, **others):
    """Return something.

    Parameters
    ----------
    first
        The first.
    second
        The second.
    **others
        The others.

    Returns
    -------
    something
        What it is.
    """
    return first, second, others


@pytest.mark.parametrize(
    ("was", "becomes", "problem"),
    [
        ("first\n", "one\n", "Parameters names"),
        ("first\n        The first.\n    second", "second\n        The first.\n    first", "Parameters names"),
        ("        The second.\n", "", "says nothing of second"),
        ("second\n", "second : int\n", "Parameters names"),
        ("Returns\n    -------", "", "no Returns"),
        ("        What it is.\n", "", "says nothing of something"),
    ],
)
def test_the_check_sees_what_is_wrong(was, becomes, problem, monkeypatch):
    assert list(function_problems("good", good)) == []
    assert was in good.__doc__
    monkeypatch.setattr(good, "__doc__", good.__doc__.replace(was, becomes, 1))
    assert any(problem in each for each in function_problems("good", good))


def test_the_check_sees_attributes():
    @dataclasses.dataclass
    class FileSchema:
        """What is kept.

        Attributes
        ----------
        here
            What is here.
        """

        here: int
        there: int

    assert any(
        "Attributes names ['here'], not ['here', 'there']" in each for each in class_problems("Kept", FileSchema)
    )


@pytest.mark.parametrize("said", ["reg_\n", "dtype\n"])
def test_the_check_sees_what_a_model_does_not_say(said, monkeypatch):
    doc = inspect.cleandoc(csrr.EASE.__doc__)
    assert said in doc
    monkeypatch.setattr(csrr.EASE, "__doc__", doc.replace(said, f"other_{said}", 1))
    assert any(f"'other_{said.strip()}'" in each for each in problems("EASE"))


def test_the_tool_corrects_what_is_not_as_declared():
    place = Path(__file__).parents[1] / "docs" / "write_docstrings.py"
    tool = runpy.run_path(str(place))
    file = Path(inspect.getfile(csrr.EASE))
    source = file.read_text("utf-8")
    drifted = source.replace(list_parameters(csrr.EASE)["dtype"].meaning, "Something else.")
    assert drifted != source
    assert tool["rewrite"]("EASE", drifted) == source == tool["rewrite"]("EASE", source)
    section = tool["write_section"](csrr.EASE)
    assert tool["rewrite"]("EASE", source.replace(section, "")) == source


def test_recommend_says_what_rules_declare():
    tool = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "write_docstrings.py"))
    source = Path(inspect.getfile(csrr.Recommender)).read_text("utf-8")
    assert tool["rewrite_rules"](source) == source, "run python docs/write_docstrings.py"
    assert all(rule.meaning.split(":")[0] in csrr.Recommender.recommend.__doc__ for rule in RULES.values())
    assert tool["rewrite_rules"](source.replace("at most two of each category", "something else")) == source
