"""`csrr reproduce`: the paper's tables and figures, reproduced, beside what was printed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.progress import show_live_line
from csrr._base.text import format_duration
from csrr.cli.help import Command
from csrr.cli.options import Decorated, NewFile, json_option
from csrr.cli.output import Failure, print_json, say, stoppable

if TYPE_CHECKING:
    from csrr_paper.jobs import Experiment, Job
    from csrr_paper.reproduce import Reproduction
    from csrr_paper.summary_types import Figure


def _make_repeat_option(name: str, metavar: str, what: str) -> Callable[[Decorated], Decorated]:
    kind = click.Choice(metavar.split("|")) if "|" in metavar else str
    return click.option(
        f"--{name}", f"{name}s", multiple=True, type=kind, metavar=metavar, help=f"{what}; may be repeated."
    )


@click.command(cls=Command)
@_make_repeat_option("table", "comparison|ablation", "A table to make")
@_make_repeat_option("figure", "cost|step|strengths", "A figure to make")
@_make_repeat_option("protocol", "numbers|text|all-ratings", "Which ratings count and how NDCG is normalized")
@click.option("--data", multiple=True, metavar="ml-100k|ml-1m|eachmovie", help="A data set; may be repeated.")
@_make_repeat_option("system", "NAME", "A system of the comparison, such as WRMF")
@click.option("--splits", type=click.IntRange(min=1), help="Number of random partitions (5; of a quick run 2).")
@click.option("--tune", type=click.Choice(["each", "once"]), help="Tune on each split's training data, or the first's.")
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, help="Number of processes, each with its part of the cores."
)
@click.option("--quick", is_flag=True, help="MovieLens-100K, two splits, few parameters: minutes, and no evidence.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("csrr-results"),
    help="The folder of results; what it holds is not run again.",
)
@click.option("--page", type=NewFile(), help="The page to write (RESULTS/page.html and .md).")
@click.option(
    "--robustness",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Results of `csrr robustness --results`, whose curves the page is to show too.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done and how long it takes, and stop.")
@json_option
def reproduce(
    results: Path,
    page: Path | None,
    robustness: Path | None,
    workers: int,
    only_plan: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Do the paper's experiments again and write a page of them.

    The page holds them against the printed numbers.
    Without --table or --figure, all of them. Every result is kept in RESULTS as soon as it is there: stop it when you
    like and start it again, it goes on where it was. RESULTS/summary.json has all numbers of the page, rows.parquet
    every result with its parameters, seed, versions, commit, machine and time, lists.parquet the hits of every user.

    Examples:
      # All of it in small, on MovieLens-100K
      csrr reproduce --quick

      # What the whole would take
      csrr reproduce --plan

      # One table
      csrr reproduce --table comparison --data ml-100k --protocol numbers
    """
    from csrr_paper.reproduce import Reproduction, check_data, plan
    from csrr_paper.results import ResultStore

    if not find_spec("optuna"):
        raise Failure("csrr reproduce needs Optuna: pip install 'csrr[reproduce]'")
    quick, tune = options["quick"], options["tune"]
    asked = plan(
        [*options["tables"], *options["figures"]],
        **{name: options[name] for name in ("data", "protocols", "systems", "splits", "quick")},
    )
    if options["data"]:
        check_data(asked)
    else:
        asked = _leave_out_missing(asked)
    if only_plan:
        _print_plan(Reproduction(ResultStore(results), asked, tuned=tune), as_json)
        return
    target = page or results / "page.html"
    with ResultStore.open(results) as store:
        run = Reproduction(store, asked, tuned=tune)
        if not as_json:
            left = format_duration(run.estimate_seconds_left() / workers)
            say(f"{_count_results(run)}; about {left} to go", err=True)
        failed = _run(run, results, workers)
        shown = Reproduction(store, _add_others(asked, quick), tuned=tune)
        more = {} if robustness is None else _read_noise_figures(robustness)
        _write(shown, _make_command(options), more, results, target, as_json)
    if failed:
        job, error = failed[0]
        where = f"{job.data}, {job.protocol}, split {job.split}, {job.name}"
        raise Failure(f"{len(failed)} of {len(run.jobs)} results could not be had; the first, {where}: {error}")


def _leave_out_missing(asked: list[Experiment]) -> list[Experiment]:
    """Return the experiments whose data sets are there, and print the others; an error if there are none."""
    from csrr_paper.reproduce import check_data, find_missing_data

    missing = find_missing_data(asked)
    left = [each for each in asked if each.data not in missing]
    if not left:
        check_data(asked)
    for words in missing.values():
        say(f"left out: {words}", err=True)
    return left


def _run(run: Reproduction, results: Path, workers: int) -> list[tuple[Job, Exception]]:
    """Run the remaining jobs and return the failed ones; an interruption says which results are kept."""
    from csrr_paper.reproduce import WorkerError

    kept = f"the results so far are in {results}, the same command goes on from there"
    try:
        with stoppable(lambda: f"stopped: {kept}"), show_live_line() as line:
            return run.run(lambda progress: line.show(str(progress)), workers=workers)
    except WorkerError as error:
        raise Failure(f"{error}; {kept}") from error
    except OSError as error:
        raise Failure(f"{error.filename or results}: {error.strerror or error}; {kept}") from error


def _add_others(asked: list[Experiment], quick: bool) -> list[Experiment]:
    """Return the chosen experiments, and then all others, since the folder may have results of them."""
    from csrr_paper.reproduce import plan

    keys = {each.key for each in asked}
    return asked + [each for each in plan(quick=quick) if each.key not in keys]


def _make_command(options: dict[str, Any]) -> str:
    """Return the command that repeats this run, without the folder of its results."""
    several = {"table": "tables", "figure": "figures", "protocol": "protocols", "data": "data", "system": "systems"}
    words = [f"--{flag} {shlex.quote(each)}" for flag, name in several.items() for each in options[name]]
    words += [f"--{name} {options[name]}" for name in ("splits", "tune") if options[name]]
    return " ".join(["csrr reproduce", *words, *["--quick"] * options["quick"]])


def _read_noise_figures(folder: Path) -> dict[str, Figure]:
    from csrr_paper.robustness_results import Robustness
    from csrr_paper.summary_types import Figure

    return {name: Figure.from_json(each) for name, each in Robustness.load(folder).figures().items()}


def _write(run: Reproduction, command: str, more: dict[str, Figure], results: Path, page: Path, as_json: bool) -> None:
    from pyarrow import parquet

    from csrr._base.files import atomic_write, write_text
    from csrr_paper.page import write_page
    from csrr_paper.results import make_lists_table, make_results_table
    from csrr_paper.summary import summarize

    found = summarize(run, command=command)
    summary = replace(found, figures=found.figures | more)
    plain = summary.to_json()
    write_text(results / "summary.json", json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    with atomic_write(results / "rows.parquet") as file:
        parquet.write_table(make_results_table(run.list_results()), file)
    with atomic_write(results / "lists.parquet") as file:
        # Users and their numbers of test items are the same in all results of a split: a dictionary keeps them once.
        lists = make_lists_table(run.store, run.list_results())
        parquet.write_table(lists, file, compression="zstd", compression_level=19, dictionary_pagesize_limit=2**26)
    html, markdown = write_page(summary, page)
    if as_json:
        print_json({"page": str(html), "summary": plain})
        return
    for headline in summary.headlines:
        say(headline)
    for each in summary.claims:
        if each.verdict != "untestable":
            say(f"{each.verdict:>6}: {each.claim}")
    say(f"{html} and {markdown.name}; numbers in {results / 'summary.json'} and rows.parquet")


def _print_plan(run: Reproduction, as_json: bool) -> None:
    if as_json:
        named = [{"part": each.name, "data": each.data, "protocol": each.protocol} for each in run.experiments]
        print_json({"parts": named, "results": len(run.jobs), "seconds": run.estimate_seconds_left()})
        return
    for each in run.experiments:
        n_results = len(each.list_jobs())
        say(f"{each.name}, {each.data}, {each.protocol}, {len(each.splits)} splits: {n_results} results")
    say(f"{_count_results(run)}; about {format_duration(run.estimate_seconds_left())}")


def _count_results(run: Reproduction) -> str:
    done = len(run.list_results())
    return f"{len(run.jobs)} results" + (f", {done} of them there already" if done else "")
