"""`plugrad check`: everything that follows from what a package declares, as one command."""

from __future__ import annotations

import sys

import typer

from plugrad.cli.output import apart, counted, refuse_unwritable, say, say_json, show
from plugrad.testing.running import expressions, jobs, state
from plugrad.testing.running.junit import write_junit

COLUMNS = {"subject": "subject", "kind": "kind", "check": "check", "from": "origin"}
SKIPPED = {"subject": "subject", "check": "check", "does not apply:": "message"}


def check(
    targets: list[str] = typer.Argument(
        None,
        metavar="TARGET",
        help="What to check: distributions, plugins, ops or public names, files. Default: all third-party ones.",
    ),
    expression: str = typer.Option("", "-k", metavar="EXPR", help="Only checks of such names: gradient and not sin."),
    device: str = typer.Option("cpu", help="The device of the samples."),
    processes: int = typer.Option(1, "--jobs", "-j", min=1, help="How many processes to use."),
    timeout: float = typer.Option(None, metavar="SECONDS", min=0, help="A check that takes longer counts as failed."),
    resume: bool = typer.Option(
        False, "--resume", help="Keep finished checks in .plugrad_check, and do not repeat them until sources change."
    ),
    junit: str = typer.Option(None, metavar="FILE", help="Also write a JUnit report."),
    as_json: bool = typer.Option(False, "--json", help="Print all checks as JSON."),
    listing: bool = typer.Option(False, "--list", help="List the checks without running them."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Also print which checks do not apply, and why."),
):
    """Check ops, layers, losses, optimizers, schedules, inits, backends and compilers, from their samples alone.

    Exit status: 0 if nothing is wrong, 1 if something is, 2 for what does not exist.
    """
    target = tuple(targets) if targets and len(targets) > 1 else targets[0] if targets else None
    with _listed(target, device, expression, processes, timeout) as job:
        if listing:
            show(job.rows, COLUMNS, as_json, "there is nothing to check")
        elif not job.rows:
            none = "there are no third-party plugins to check; `plugrad check plugrad` checks plugrad's own"
            say("[]" if as_json else none)
        elif not __debug__:
            raise typer.BadParameter("checks need assert statements: run Python without -O, and without PYTHONOPTIMIZE")
        else:
            raise typer.Exit(_checked(job, resume, junit, as_json, verbose))


def _listed(target, device, expression, processes, timeout) -> jobs.Job:
    """Return the checks that were asked for."""
    try:
        wanted = expressions.matcher(expression)
        with apart():
            job = jobs.Job(target, device, processes, timeout)
    except (LookupError, ValueError, SyntaxError) as error:
        raise typer.BadParameter(str(error)) from None
    everything, job.rows = job.rows, [row for row in job.rows if row["status"] or wanted(row["id"])]
    if everything and not job.rows:
        raise typer.BadParameter(f"none of {len(everything)} checks matches -k {expression!r}")
    return job


def _checked(job, resume, junit, as_json, verbose) -> int:
    """Run checks, report what came of them, and return the exit status."""
    if junit:
        refuse_unwritable(junit)
    kept = state.State(job) if resume else None
    if kept is not None and kept.note:
        say(kept.note, err=True)
    rows, interrupted = _run(job, kept, quiet=as_json)
    if junit:
        write_junit(junit, rows)
    if as_json:
        say_json(rows)
    else:
        _report(rows, kept, verbose)
    if interrupted:
        advice = "; the same command continues" if resume else "; with --resume it could be continued"
        say(f"interrupted after {len(rows)} of {counted(len(job.rows), 'check')}{advice}", err=True)
        return 130
    return 1 if any(row["status"] == "failed" for row in rows) else 0


def _run(job, kept, quiet) -> tuple:
    """Run the checks, with a progress bar if stderr is a terminal; return the rows, and whether it was interrupted."""
    rows = [] if kept is None else kept.rows
    results = job.run(rows)
    if not quiet and sys.stderr.isatty():
        results = _bar(results, len(job.rows), len(rows))
    try:
        for row in results:
            rows.append(row)
            if kept is not None:
                kept.add(row)
    except KeyboardInterrupt:
        return rows, True
    return rows, False


def _bar(results, total, done):
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, failed = bar.add_task("checking", total=total, completed=done), 0
        for row in results:
            failed += row["status"] == "failed"
            said = f"{row['subject']}" + (f", {failed} failed" if failed else "")
            bar.update(task, advance=1, description=f"{said:<40}")
            yield row


def _report(rows, kept, verbose) -> None:
    for row in rows:
        if row["status"] == "failed":
            say(f"FAILED {row['id']}\n{row['message']}", indent="    ")
    skipped = [row for row in rows if row["status"] == "skipped"]
    if verbose and skipped:
        show(skipped, SKIPPED, False)
    counts = {word: sum(row["status"] == word for row in rows) for word in ("passed", "failed", "skipped")}
    apply = "does not apply" if counts["skipped"] == 1 else "do not apply"
    words = {"passed": "passed", "failed": "failed", "skipped": apply}
    summary = ", ".join(f"{count} {words[word]}" for word, count in counts.items() if count)
    origins = sorted({row["origin"] for row in rows if row["origin"]})
    again = f" ({kept.known} of them before)" if kept is not None and kept.known else ""
    say(f"{', '.join(origins) or 'nothing'}: {counted(len(rows), 'check')}{again}: {summary or 'none finished'}")


COMMANDS = [check]
