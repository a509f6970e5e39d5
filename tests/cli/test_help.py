"""What csrr says about itself: the front page, help in groups and sections, and examples that work."""

import re
import shlex
import shutil
from importlib.util import find_spec

import click
import pytest

from csrr.cli import app
from csrr.cli.commands import COMMANDS, GROUPS, find_plugins
from csrr.cli.help import SectionOption
from tests.cli.conftest import find_wide, in_process, in_terminal

DATA = app.get_command(None, "data")
PLACES = [(), *((name,) for name in app.list_commands(None)), *(("data", name) for name in DATA.commands)]
"""The words of every command and subcommand."""
LONG = ("start", "tune", "robustness", "reproduce", "serve")
"""Commands whose examples take minutes, or do not end: these are parsed, not run."""


def find_command(words):
    return app if not words else DATA.commands[words[1]] if len(words) > 1 else app.get_command(None, words[0])


def list_example_words(words):
    """Return the words of each example of a command, without what is the shell's."""
    lines = [line for _, line in find_command(words).examples]
    return [shlex.split(re.search(r'csrr [^>)|"]*', line)[0])[1:] for line in lines]


def test_without_a_command_three_are_shown_and_how_to_see_all():
    text = in_terminal().stdout
    commands = re.findall(r"^    (csrr .*)$", text, re.MULTILINE)
    assert commands == [line for _, line in app.examples]
    assert [line.split()[1] for line in commands] == ["demo", "start", "recommend"]
    assert "csrr --help" in text
    assert len(text.splitlines()) < 20


def test_the_groups_hold_every_command_once():
    names = [name for group in GROUPS.values() for name in group]
    assert len(names) == len(set(names)) == len(COMMANDS)
    text = in_process("--help").stdout
    assert list(find_plugins()) == ["reproduce", "robustness"]
    for title, group in {**GROUPS, "More": find_plugins()}.items():
        part = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in part.splitlines()] == list(group)


@pytest.mark.parametrize("words", [(), ("data",)])
def test_no_short_help_is_cut_or_broken(words):
    command = find_command(words)
    text = in_process(*words, "--help").stdout
    assert "..." not in text.partition("Options:")[2]
    for name in command.list_commands(None):
        told = command.get_command(None, name).get_short_help_str(limit=1000)
        assert re.search(rf"^  {name} +{re.escape(told)}$", text, re.MULTILINE), name


@pytest.mark.parametrize("words", PLACES)
def test_help_fits_a_terminal_and_ends_with_examples(words):
    result = in_terminal(*words, "--help")
    assert result.exit_code == 0
    assert find_wide(result) == []
    examples = find_command(words).examples
    end = "\n\n".join(f"  # {what}\n  {line}" for what, line in examples)
    assert len(examples) >= 2
    assert result.stdout.endswith(f"\n\nExamples:\n{end}\n")


@pytest.mark.parametrize("words", PLACES)
def test_help_tells_of_every_option(words):
    text, command = in_process(*words, "--help").stdout, find_command(words)
    options = [each for each in command.params if isinstance(each, click.Option)]
    for each in options:
        name, _ = each.get_help_record(click.Context(command))
        assert len(re.findall(rf"^  {re.escape(name)}(?:  |$)", text, re.MULTILINE)) == 1, name
    for title in {each.section for each in options if isinstance(each, SectionOption)}:
        assert text.count(f"\n{title}:\n") == 1


@pytest.mark.parametrize("words", PLACES)
def test_examples_are_about_the_command_and_have_options_that_exist(words):
    for given in list_example_words(words):
        assert given[0] in app.list_commands(None)
        command, rest = app.get_command(None, given[0]), given[1:]
        if command is DATA and rest:
            command, rest = DATA.commands[rest[0]], rest[1:]
        context = command.make_context(given[0], rest)
        assert not context.args
    assert all(given[: len(words)] == list(words) for given in list_example_words(words)[:1])


@pytest.mark.parametrize("words", [words for words in PLACES if words and words[0] not in LONG])
def test_examples_run_and_what_they_print_fits_a_terminal(words, shop, tmp_path, monkeypatch, ratings):
    shutil.copytree(shop, tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    for given in list_example_words(words):
        if "faiss" in given and not find_spec("faiss"):
            continue
        result = in_terminal(*given)
        assert result.exit_code == 0, (given, result.stderr)
        wide = [] if "--json" in given or given[0] == "completion" else find_wide(result)
        assert [line for line in wide if not line.startswith(str(ratings))] == [], given


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """A package beside ours that adds three commands, of which one works."""
    info = tmp_path / "shop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[csrr.commands]\nstock = shop:stock\nbroken = shop_missing:run\nodd = shop:NUMBER\nfit = shop:stock\n"
    )
    (tmp_path / "shop.py").write_text(
        "import click\nNUMBER = 3\n"
        "@click.command()\n@click.option('--at-least', type=int, default=1)\n"
        "def stock(at_least):\n    'What is in stock.'\n    click.echo(f'{at_least} or more')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    find_plugins.cache_clear()
    yield
    find_plugins.cache_clear()


def test_other_packages_add_commands(plugins):
    told = in_process("stock", "--at-least", 4)
    assert (told.exit_code, told.stdout) == (0, "4 or more\n")
    more = in_process("--help").stdout.partition("\nMore:\n")[2]
    assert re.search(r"^  stock +What is in stock\.$", more, re.MULTILINE)
    assert "did you mean stock?" in in_process("stok").stderr
    # Ours stay ours.
    assert "What is in stock" not in in_process("fit", "--help").stdout


@pytest.mark.parametrize(
    ("name", "reason"), [("broken", "No module named 'shop_missing'"), ("odd", "not a click command")]
)
def test_a_plug_in_that_cannot_be_loaded_says_so_and_is_in_nobodys_way(plugins, name, reason):
    assert in_process("--help").exit_code == 0
    told = in_process(name)
    assert told.exit_code == 2
    assert f"the command {name} of the package shop cannot be loaded" in told.stderr
    assert reason in told.stderr
