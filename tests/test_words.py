"""The words of documents, docstrings and messages: American spelling, and no private idiom."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BRITISH = re.compile(
    r"(?<![\w/.])(?:neighbour|behaviour|colour|favour|honour|labour|licence|catalogue|grey\b|centre|learnt|spelt|"
    r"judgement|whilst|amongst|towards|programme\b|artefact|unlabelled|labelled(?!by)|modelling|cancelled|travell|"
    r"(?:normal|regular|recogn|summar|penal|factor|vector|random|linear|symmetr|general|character|initial|serial|"
    r"parallel|real|organ|categor|visual|standard|prior|special)is(?:e[ds]?|ing|er|ation)\b|"
    r"(?:optim|minim|maxim)is(?:e[drs]?|ing|ation)\b|analys(?:e[ds]?|ing)\b)\w*",
    re.IGNORECASE,
)
IDIOMS = (
    "made data",
    "own choices",
    "speaks for",
    "speak for",
    "the floor",
    "what goes with what",
    "what one has",
    "one value a user",
    "what is popular",
    "gets what",
    "cannot be told from",
    "to the letter",
    "as it comes",
    "stand noise",
    "holds to be",
    "the house",
    "clicks that nobody meant",
    "no warrant",
    "done again",
    "at once or not at all",
    "fit for json",
    "makes no sense",
    "where to cut",
    "rules of the house",
    "what is called what",
    "compare honestly",
    "in the mean,",
    "middling",
    "people who were not in",
    "somebody of whom",
)
"""Phrases that a reader has to puzzle over; the field has words for all of them."""
OLD_NAMES = re.compile(r"`[^`\n]*`|\{\{[^}]*\}\}|\"neighbours\"|nearest_neighbours|\w+\.css|\w+\.py")
"""Code keeps its names, old spellings of parameters among them."""
STORED = re.compile(r"CSRR as it comes")
"""A name in results that are kept; pages show it as CSRR()."""
DOCUMENTS = [
    path
    for pattern in ("*.md", "docs/**/*.md", "docs/make/*.in", "src/csrr/**/*.html")
    for path in ROOT.glob(pattern)
    if "gallery" not in path.parts
]
SOURCES = [path for path in (ROOT / "src" / "csrr").rglob("*.py") if path.name != "__init__.py"]


def find_faults(text):
    """Return the British spellings and the idioms of a text, code in backticks left out."""
    plain = " ".join(STORED.sub(" ", OLD_NAMES.sub(" ", text)).split())
    found = [each[0] for each in BRITISH.finditer(plain)]
    return found + [each for each in IDIOMS if re.search(rf"\b{re.escape(each)}", plain, re.IGNORECASE)]


def list_texts(source):
    """Return the docstrings of a module's public names, and its strings of several words: messages among them."""
    tree = ast.parse(source)
    parts = {id(part) for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in each.values}
    hidden = set()
    for each in ast.walk(tree):
        if isinstance(each, ast.Module) or (
            isinstance(each, ast.FunctionDef | ast.ClassDef) and each.name.startswith("_")
        ):
            hidden |= {id(each.body[0].value)} if each.body and isinstance(each.body[0], ast.Expr) else set()
    for each in ast.walk(tree):
        if isinstance(each, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in each.values)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in parts | hidden:
            yield each.value if " " in each.value else ""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents(path):
    assert find_faults(path.read_text()) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_and_messages(path):
    assert [(text[:80], faults) for text in list_texts(path.read_text()) if (faults := find_faults(text))] == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("The neighbours were normalised.", ["neighbours", "normalised"]),
        ("Users get what is popular, the floor.", ["the floor", "what is popular"]),
        ("a Catalogue in two\nColours", ["Catalogue", "Colours"]),
        ("`ItemKNN(neighbours=)` is `neighbors`; optimism, realism and a promise are fine.", []),
    ],
)
def test_a_fault_is_found(text, faults):
    assert find_faults(text) == faults


def test_a_fault_in_a_message_is_found():
    source = 'def look():\n    """Return it."""\n    raise ValueError(f"{1} is not in the catalogue")\n'
    assert [find_faults(text) for text in list_texts(source)] == [[], ["catalogue"]]
    source = 'def look():\n    """Return made data."""\n'
    assert [find_faults(text) for text in list_texts(source)] == [["made data"]]
