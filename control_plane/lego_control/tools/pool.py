"""Tasks by how often they are solved, and what is odd about their rewards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lego_control.failures import Refusal
from lego_control.fence import name as plain
from lego_control.run import Run
from lego_control.runs import Runs
from lego_control.schemas import AuditRow, Pool, PoolTask, RewardsAudit
from lego_control.tools.paging import page, place
from lego_control.tools.status import last_step

FEW = 4
ORDERS = {
    "solve_rate": "rate",
    "-solve_rate": "rate DESC",
    "rollouts": "n",
    "-rollouts": "n DESC",
    "task": "task",
}
_BY_TASK = """
SELECT task, COUNT(*) AS n, COUNT(reward) AS graded, AVG(reward >= 1.0) AS rate, MAX(step) AS last, MIN(reward) AS low,
       MAX(reward) AS high FROM trajectory WHERE step BETWEEN ? AND ? GROUP BY task
"""


def pool_query(
    runs: Runs, run: str, audit: str | None = None, min_solve_rate: float = 0.0, max_solve_rate: float = 1.0, tag: str = "",
    first_step: int = 0, last_step_: int | None = None, sort: str = "solve_rate", limit: int = 50, cursor: str | None = None,
) -> Pool:  # fmt: skip
    """`tag` is the beginning of a task's name."""
    if sort not in ORDERS:
        raise Refusal("bad_argument", "unknown order", f"sort by one of {', '.join(ORDERS)}")
    found = _fresh(runs, run)
    span = (first_step, last_step_ if last_step_ is not None else 2**62)
    every = [_task(*row) for row in found.index.rows(f"{_BY_TASK} ORDER BY {ORDERS[sort]}, task", span)]
    matching = [
        task
        for task in every
        if task.task.startswith(tag)
        and audit in (None, task.audit)
        and (task.solve_rate is None or min_solve_rate <= task.solve_rate <= max_solve_rate)
    ]
    start = place(cursor)
    taken, following = page(matching[start:], start, limit)
    return Pool(
        run=run,
        n_tasks=len(matching),
        tasks=taken,
        facets=dict(Counter(task.audit for task in every)),
        next_cursor=following,
        as_of_step=last_step(found),
        stale_s=found.stale_s(),
    )


def _task(
    task: str,
    n: int,
    graded: int,
    rate: float | None,
    last: int | None,
    low: float | None,
    high: float | None,
) -> PoolTask:
    return PoolTask(
        task=plain(str(task)),
        rollouts=n,
        graded=graded,
        solve_rate=None if rate is None else round(rate, 4),
        failed=n - graded,
        last_step=last,
        audit=_audit(graded, rate, low, high),
    )


def _audit(graded: int, rate: float | None, low: float | None, high: float | None) -> str:
    """Whether a task's rewards, from `low` to `high`, teach anything."""
    if not graded:
        return "ungraded"
    if graded < FEW:
        return "few"
    if low != high:
        return "mixed"
    if rate == 1:
        return "always_solved"
    return "mixed" if high else "never_solved"


def rewards_audit(
    runs: Runs,
    run: str,
    first_step: int = 0,
    last_step_: int | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> RewardsAudit:
    """Degenerate tasks, tasks whose solve rate reversed, rewards between 0 and 1, missing grades."""
    found = _fresh(runs, run)
    span = (first_step, last_step_ if last_step_ is not None else 2**62)
    start = place(cursor)
    rows = list(_odd(found, span))
    taken, following = page(rows[start:], start, limit)
    ungraded = found.index.rows(
        "SELECT stop_reason, COUNT(*) FROM trajectory WHERE reward IS NULL AND step BETWEEN ? AND ? GROUP BY 1",
        span,
    )
    zero, groups = (
        found.index.rows(
            "SELECT SUM(value) FROM metric WHERE key = ? AND step BETWEEN ? AND ?", (key, *span)
        )[0][0]
        for key in ("zero_variance_groups", "groups")
    )
    return RewardsAudit(
        run=run,
        rows=taken,
        ungraded={plain(str(reason)): count for reason, count in ungraded},
        zero_variance_share=round(zero / groups, 4) if groups else None,
        next_cursor=following,
        as_of_step=last_step(found),
        stale_s=found.stale_s(),
        warnings=["integrity findings of single rollouts are not counted here: `lego review RUN` lists them"],
    )


def _odd(run: Run, span: tuple[int, int]) -> Iterator[AuditRow]:
    for row in run.index.rows(f"{_BY_TASK} ORDER BY n DESC, task", span):
        task = _task(*row)
        if task.audit in ("always_solved", "never_solved"):
            yield AuditRow(
                kind="degenerate", task=task.task, step=task.last_step, count=task.graded, detail=task.audit
            )
        elif task.audit == "ungraded":
            yield AuditRow(
                kind="ungraded",
                task=task.task,
                step=task.last_step,
                count=task.failed,
                detail="no rollout has a grade",
            )
    yield from _flips(run, span)
    for task, step, count in run.index.rows(
        "SELECT task, MAX(step), COUNT(*) FROM trajectory WHERE reward > 0 AND reward < 1 AND step BETWEEN ? AND ? "
        "GROUP BY task ORDER BY 3 DESC", span
    ):  # fmt: skip
        yield AuditRow(
            kind="partial_credit",
            task=plain(str(task)),
            step=step,
            count=count,
            detail="rewards between 0 and 1",
        )


def _flips(run: Run, span: tuple[int, int]) -> Iterator[AuditRow]:
    """Tasks solved at least three times in four at first and at most once in four at last, or the other way round."""
    middle = run.index.rows(
        "SELECT (MIN(step) + MAX(step)) / 2 FROM trajectory WHERE step BETWEEN ? AND ?", span
    )[0][0]
    if middle is None:
        return
    early, late = "CASE WHEN step <= ? THEN reward >= 1.0 END", "CASE WHEN step > ? THEN reward >= 1.0 END"
    question = (
        f"SELECT task, AVG({early}) AS before, AVG({late}) AS after, COUNT({early}), COUNT({late}), MAX(step) "
        "FROM trajectory WHERE step BETWEEN ? AND ? GROUP BY task "
        "HAVING (before >= 0.75 AND after <= 0.25) OR (before <= 0.25 AND after >= 0.75) ORDER BY task"
    )
    for task, before, after, n, m, step in run.index.rows(question, (middle,) * 4 + span):
        if min(n, m) >= FEW:
            detail = f"solve rate {before:.2f} until step {middle}, {after:.2f} since"
            yield AuditRow(kind="flip", task=plain(str(task)), step=step, count=n + m, detail=detail)


def _fresh(runs: Runs, run: str) -> Run:
    found = runs.get(run)
    found.index.refresh("steps", "trajectories")
    return found
