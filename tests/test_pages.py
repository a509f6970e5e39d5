"""Every page of the documentation runs: its Python, its commands, and what it says they print."""

from pathlib import Path

import pytest

import csrr
from tests.run_blocks import BLOCK, run_page

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(
    str(path.relative_to(DOCS))
    for path in DOCS.rglob("*.md")
    if any(kind != "text" for kind, _ in BLOCK.findall(path.read_text()))
)


def check_update(page):
    assert page.ran == ["python", "bash", "bash", "python", "python", "python", "python"]
    assert sorted(path.name for path in Path("done").iterdir()) == ["day-30.csv", "day-31.csv"]
    assert list(Path("incoming").iterdir()) == []
    # The month, two nights and an evening.
    assert csrr.load("model.csrr").seen_.nnz == len(page.scope["log"]) + 3


def check_cleaning(page):
    assert len(page.scope["little"]) > len(page.scope["more"])


def check_first_look(page):
    assert {"page.html", "summary.json", "model.csrr"} <= {each.name for each in Path("first-look").iterdir()}


CHECKS = {
    "recipes/first-look.md": check_first_look,
    "recipes/nightly-update.md": check_update,
    "recipes/noisy-logs.md": check_cleaning,
}
"""What else must hold after a page has run."""


def test_the_pages_that_have_code_are_found():
    assert {"index.md", "getting-started.md", "faq.md", "coming-from/implicit.md", *CHECKS} <= set(PAGES)
    assert len([name for name in PAGES if name.startswith("recipes/")]) >= 16


def test_all_python_runs_but_what_takes_too_long():
    """```py is shown and not run."""
    shown = {path.name: path.read_text().count("\n```py\n") for path in DOCS.rglob("*.md")}
    assert {name: n for name, n in shown.items() if n} == {"theory.md": 1}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_and_prints_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = run_page(DOCS / name)
    assert page.ran
    if name in CHECKS:
        CHECKS[name](page)


def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(DOCS.parent / "README.md").ran == ["python"]
    assert csrr.load("model.csrr").seen_.nnz > 0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```\n", AssertionError),
        ("```python\nraise KeyError\n```\n", KeyError),
        ("```python\nimport warnings\nwarnings.warn('mind')\n```\n", UserWarning),
        ("```bash\ncsrr fit none.csv -o model.csrr\n```\n", AssertionError),
        ("```sh\ncsrr --version | grep -c csrr\n```\n```text\n7\n```\n", AssertionError),
    ],
)
def test_a_page_that_is_wrong_is_found(text, what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("page.md").write_text(text)
    with pytest.raises(what):
        run_page(Path("page.md"))


def test_blocks_share_their_names_and_their_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("page.md").write_text(
        "```python\na = 2\n```\nWords.\n```bash\necho 3 > b\n```\n"
        "```python\nfrom pathlib import Path\nprint(a, Path('b').read_text().strip())\n```\n```text\n2 3\n```\n"
        "```\nnot run\n```\n"
    )
    assert run_page(Path("page.md")).ran == ["python", "bash", "python"]
