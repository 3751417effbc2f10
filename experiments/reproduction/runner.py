"""Runs claims: their cells on all cores, whatever is finished kept; then verdicts and pictures."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import joblib
from threadpoolctl import threadpool_limits

import privem
from privem.datasets import DataNotFound
from privem.files import write_whole

from .claims import Claim, Finding, Paper, Rows
from .noise import insecure_seeded_noise
from .pictures import draw
from .store import Job, Store, code, text

Watch = Callable[[str, int, int], None]
# Processes share the cores, so each has one thread.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


@dataclass(frozen=True)
class Outcome:
    """What became of a claim.

    Parameters
    ----------
    id, title, paper : str
    quick : bool
        Whether this was the quick version, whose verdicts are preliminary.
    status : {"done", "not run", "failed"}
        ``"not run"``: data are missing.
    reason : str
        Why it was not run, or failed.
    findings : dict
        One for each statement.
    cells : int
        How many there are.
    seconds : float
        Of the processor, all cells together.
    files : dict
        Results and picture.
    """

    id: str
    title: str
    paper: str
    quick: bool
    status: str
    reason: str
    findings: dict[str, Finding]
    cells: int
    seconds: float
    files: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """What JSON holds."""
        return asdict(self)


def reproduce(
    claims: Sequence[tuple[Paper, str]],
    out: Path,
    quick: bool = False,
    jobs: int | None = None,
    watch: Watch = lambda said, done, total: None,
) -> Iterator[Outcome]:
    """Run claims one after the other; cells that an earlier run has finished are not run again.

    Parameters
    ----------
    claims : sequence of (Paper, name)
        Such as ``(paper, "fig1")``.
    out : Path
        Folder for results, and for finished cells.
    quick : bool
        Fewer settings and repetitions, for a look.
    jobs : int, optional
        Processes; all cores by default.
    watch : callable
        Told what is being done, how many cells are done, and of how many.
    """
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        workers = Workers(Store(out), jobs or joblib.cpu_count(), stack)
        for paper, name in claims:
            yield _outcome(paper, name, workers, quick, watch)


def _outcome(paper: Paper, name: str, workers: Workers, quick: bool, watch: Watch) -> Outcome:
    claim_id, told = f"{paper.name}-{name}", paper.expected["claims"][name]
    jobs: list[Job] = []

    def outcome(status: str, reason: str = "", findings: Any = None, files: Any = None) -> Outcome:
        about = (claim_id, told["title"], paper.expected["paper"], quick, status, reason)
        seconds = sum(workers.store.seconds(job) for job in jobs)
        return Outcome(*about, findings or {}, len(jobs), round(seconds, 1), files or {})

    try:
        claim: Claim = paper.module.CLAIMS[name]
        jobs += {
            job.key: job
            for job in (Job.of(cell, paper.module.VERSION) for cell in claim.cells(quick))
        }.values()
        problems = workers.run(jobs, lambda done: watch(claim_id, done, len(jobs)))
        for problem in problems:
            return outcome(*problem)
        rows = Rows(row for job in jobs for row in workers.store.rows(job))
        findings = claim.judge(rows)
        statements = set(told["statements"])
        if not set(findings) <= statements or (not quick and set(findings) != statements):
            raise ValueError(
                f"{claim_id}: expected.json has the statements {sorted(told['statements'])}, "
                f"the verdicts are about {sorted(findings)}"
            )
        for finding in findings.values():
            finding.check(quick)
        base = workers.store.folder / (f"{claim_id}-quick" if quick else claim_id)
        files = {"results": f"{base}.json"}
        table = {} if claim.table is None else {"table": claim.table(rows)}
        if claim.draw is not None:
            files["picture"] = f"{base}.png"
            draw(claim.draw, rows, Path(files["picture"]))
        found = outcome("done", findings=findings, files=files)
        known = {"privem": privem.__version__, "code": code()}
        with write_whole(files["results"]) as temporary:
            kept = {**found.to_dict(), **known, **table, "rows": list(rows)}
            temporary.write_text(text(kept), "utf-8")
        return found
    except Exception:
        return outcome("failed", traceback.format_exc())


class Workers:
    """Processes that run cells, started when the first cell is to be run."""

    def __init__(self, store: Store, jobs: int, stack: ExitStack) -> None:
        self.store, self._jobs, self._stack = store, jobs, stack
        self._pool: ProcessPoolExecutor | None = None

    def run(self, jobs: Sequence[Job], watch: Callable[[int], None]) -> list[tuple[str, str]]:
        """Run those that are not finished; what went wrong, the worst first."""
        todo = [job for job in jobs if not self.store.has(job)]
        problems = []
        watch(len(jobs) - len(todo))
        for done, problem in enumerate(self._each(todo), len(jobs) - len(todo) + 1):
            problems += [] if problem is None else [problem]
            watch(done)
        return sorted(problems)  # "failed" before "not run"

    def _each(self, todo: Sequence[Job]) -> Iterator[tuple[str, str] | None]:
        if self._jobs == 1:
            yield from (work(self.store, job) for job in todo)
            return
        if not todo:
            return
        if self._pool is None:
            self._pool = self._stack.enter_context(pool(self._jobs))
        waiting = [self._pool.submit(work, self.store, job) for job in todo]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BrokenProcessPool:
            self._pool = None
            yield (
                "failed",
                "a process that ran a cell was killed, perhaps for want of memory. What was "
                "finished is kept: run it again, with a smaller --jobs",
            )


def work(store: Store, job: Job) -> tuple[str, str] | None:
    """Run one cell and keep its result; what went wrong, if anything did."""
    started = time.process_time()
    try:
        with warnings.catch_warnings(), threadpool_limits(1), insecure_seeded_noise(job.seed):
            warnings.simplefilter("ignore")  # Not converging, and so on: it shows in the results.
            found = job.cell.function(**job.cell.arguments)
        rows = [found] if isinstance(found, dict) else found
        store.keep(job, rows, time.process_time() - started)
    except DataNotFound as missing:
        return "not run", str(missing)
    except Exception:
        return "failed", f"{job.cell.name}({job.cell.arguments}):\n{traceback.format_exc()}"
    return None


@contextmanager
def pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes with one thread each; whatever ends the command ends them at once."""
    # New interpreters: a fork of a process with threads may hang.
    context, before = multiprocessing.get_context("spawn"), {*multiprocessing.active_children()}
    with mock.patch.dict(os.environ, dict.fromkeys(_THREADS, "1")):
        executor = ProcessPoolExecutor(jobs, context, initializer=_begin)
        try:
            yield executor
            executor.shutdown()
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in {*multiprocessing.active_children()} - before:
                process.terminate()
            raise


def _begin() -> None:
    """In a new process: Ctrl-C is for the command, and nothing outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
