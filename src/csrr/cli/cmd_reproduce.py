"""`csrr reproduce`: the paper's tables and figures, done again, beside what was printed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr.cli.failures import Failure, stoppable
from csrr.cli.options import Decorated, check_writable, json_option
from csrr.cli.output import live_line, print_json

if TYPE_CHECKING:
    from csrr.paper.jobs import Job, Part
    from csrr.paper.reproduce import Progress, Reproduction


def _several(name: str, metavar: str, what: str) -> Callable[[Decorated], Decorated]:
    return click.option(f"--{name}", f"{name}s", multiple=True, metavar=metavar, help=f"{what}; may be repeated.")


@click.command()
@_several("table", "comparison|ablation", "A table to make")
@_several("figure", "cost|step|strengths", "A figure to make")
@_several("protocol", "numbers|text|all-ratings", "Which ratings count and how NDCG is normalised")
@click.option("--data", multiple=True, metavar="ml-100k|ml-1m|eachmovie", help="A data set; may be repeated.")
@_several("system", "NAME", "A system of the comparison, such as WRMF")
@click.option("--splits", type=click.IntRange(min=1), help="Number of random partitions (5; of a quick run 2).")
@click.option("--tune", type=click.Choice(["each", "once"]), help="Tune on each split's training data, or the first's.")
@click.option("--quick", is_flag=True, help="MovieLens-100K, two splits, few parameters: all of it in minutes.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("csrr-results"),
    show_default=True,
    help="The folder of results; what it holds is not done again.",
)
@click.option("--page", type=click.Path(path_type=Path), help="The page to write (RESULTS/page.html and .md).")
@click.option(
    "--robustness",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Results of `csrr robustness --results`, whose curves the page is to show too.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done and how long it takes, and stop.")
@json_option
def reproduce(
    tables: tuple[str, ...],
    figures: tuple[str, ...],
    protocols: tuple[str, ...],
    data: tuple[str, ...],
    systems: tuple[str, ...],
    splits: int | None,
    tune: Any,
    quick: bool,
    results: Path,
    page: Path | None,
    robustness: Path | None,
    only_plan: bool,
    as_json: bool,
) -> None:
    """Do the paper's experiments again and write a page that holds them against the printed numbers.

    Without --table or --figure, all of them. Every result is kept in RESULTS as soon as it is there: stop it when you
    like and start it again, it goes on where it was. RESULTS/summary.json has all numbers of the page, rows.parquet
    every result with its parameters, seed, versions, machine and time.
    """
    from csrr.paper.reproduce import Reproduction, check_data, plan
    from csrr.paper.results import Rows

    if not (find_spec("optuna") and find_spec("jinja2")):
        raise Failure("csrr reproduce needs Optuna and Jinja2: pip install 'csrr[reproduce]'")
    parts = plan(_checked(tables, figures), data=data, protocols=protocols, systems=systems, splits=splits, quick=quick)
    check_data(parts)
    if only_plan:
        _print_plan(Reproduction(Rows(results), parts, tuned=tune), as_json)
        return
    target = page or results / "page.html"
    if page is not None:
        check_writable(page)
    given = {"table": tables, "figure": figures, "protocol": protocols, "data": data, "system": systems}
    with Rows.open(results) as rows:
        run = Reproduction(rows, parts, tuned=tune)
        if not as_json:
            click.echo(f"{_counted(run)}; about {_duration(run.seconds_left())} to go", err=True)
        failed = _run(run, results)
        shown = Reproduction(rows, _all_parts(parts, quick), tuned=tune)
        more = {} if robustness is None else _noise_figures(robustness)
        _write(shown, _command(given, splits, tune, quick), more, results, target, as_json)
    if failed:
        job, error = failed[0]
        where = f"{job.data}, {job.protocol}, split {job.split}, {job.name}"
        raise Failure(f"{len(failed)} of {len(run.jobs)} results could not be had; the first, {where}: {error}")


def _run(run: Reproduction, results: Path) -> list[tuple[Job, Exception]]:
    """Run what is left and return what failed; what stops it is said together with what is kept."""
    kept = f"the results so far are in {results}, the same command goes on from there"
    try:
        with stoppable(lambda: f"stopped: {kept}"), live_line() as line:
            return run.run((lambda progress: line.show(_told(progress))) if line.live else None)
    except OSError as error:
        raise Failure(f"{error.filename or results}: {error.strerror or error}; {kept}") from error


def _all_parts(parts: list[Part], quick: bool) -> list[Part]:
    """Return the parts asked for, and after them all others, since the folder may hold their results too."""
    from csrr.paper.reproduce import plan

    asked = {(part.name, part.data, part.protocol) for part in parts}
    return parts + [part for part in plan(quick=quick) if (part.name, part.data, part.protocol) not in asked]


def _checked(tables: tuple[str, ...], figures: tuple[str, ...]) -> list[Any]:
    from csrr.paper.jobs import FIGURES, TABLES

    for what, given, known in (("table", tables, TABLES), ("figure", figures, FIGURES)):
        for each in given:
            if each not in known:
                raise click.UsageError(f"--{what} {each}: there is no such {what}; there are {', '.join(known)}")
    return [*tables, *figures]


def _command(given: dict[str, tuple[str, ...]], splits: int | None, tune: str | None, quick: bool) -> str:
    """Return the command that does this again, wherever its results are kept."""
    words = [
        "csrr reproduce",
        *(f"--{name} {shlex.quote(each)}" for name, several in given.items() for each in several),
    ]
    words += [f"--splits {splits}"] if splits else []
    words += [f"--tune {tune}"] if tune else []
    return " ".join(words + ["--quick"] * quick)


def _noise_figures(folder: Path) -> dict[str, Any]:
    from csrr.paper.robustness_results import Robustness

    return Robustness.load(folder).figures()


def _write(run: Reproduction, command: str, more: dict[str, Any], results: Path, page: Path, as_json: bool) -> None:
    from pyarrow import parquet

    from csrr.files import atomic_write, write_text
    from csrr.paper import write
    from csrr.paper.results import as_table
    from csrr.paper.summary import summarise

    summary = summarise(run, command=command)
    summary["figures"] |= more
    write_text(results / "summary.json", json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    with atomic_write(results / "rows.parquet") as file:
        parquet.write_table(as_table(run.results()), file)
    html, markdown = write(summary, page)
    if as_json:
        print_json({"page": str(html), "summary": summary})
        return
    for each in summary["headlines"]:
        click.echo(each)
    for each in summary["claims"]:
        if each["verdict"] != "untestable":
            click.echo(f"{each['verdict']:>6}: {each['claim']}")
    click.echo(f"{html} and {markdown.name}; numbers in {results / 'summary.json'} and rows.parquet")


def _print_plan(run: Reproduction, as_json: bool) -> None:
    if as_json:
        named = [{"part": part.name, "data": part.data, "protocol": part.protocol} for part in run.parts]
        print_json({"parts": named, "results": len(run.jobs), "seconds": run.seconds_left()})
        return
    for part in run.parts:
        click.echo(f"{part.name}, {part.data}, {part.protocol}, {len(part.splits)} splits: {len(part.jobs())} results")
    click.echo(f"{_counted(run)}; about {_duration(run.seconds_left())}")


def _counted(run: Reproduction) -> str:
    done = len(run.results())
    return f"{len(run.jobs)} results" + (f", {done} of them there already" if done else "")


def _duration(seconds: float) -> str:
    """Return a time in words: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def _told(progress: Progress) -> str:
    left = _duration(progress.seconds_left)
    return f"{progress.done} of {progress.total}, {left} left: {progress.now}"
