"""Beside the bench of control: what the bare parts take, without rows, leases or machines. The Celery task has a worker of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import redis
from celery import Celery

from keepstate_site.settings.queue import broker_url
from keepstate_site.stack.paths import PROJECT
from tests.bench.api_server import Caller
from tests.bench.report import Row, row

QUEUE, ANSWERS = "bench.bare", "bench:bare"
WARM = 5
ANSWER_SECONDS = 120
#: As many at a time as the bench's own clients.
SLOTS = 2

URL = os.environ.get("KEEPSTATE_BENCH_REDIS", "")
app = Celery("bare", broker=broker_url(URL), set_as_current=False)  # who imports this keeps the project's own
app.conf.update(task_ignore_result=True, task_default_queue=QUEUE, worker_prefetch_multiplier=1)


@app.task(name="bench.stamp")
def stamp(sent: float) -> None:
    with redis.Redis.from_url(URL) as answers:
        answers.lpush(ANSWERS, time.time() - sent)


@contextmanager
def _worker(url: str) -> Iterator[None]:
    argv = [sys.executable, "-m", "celery", "-A", "tests.bench.control_bare", "worker", "-c", str(SLOTS), "-Q", QUEUE]
    argv += ["--without-gossip", "--without-mingle", "--loglevel", "ERROR"]
    env = {**os.environ, "KEEPSTATE_BENCH_REDIS": url}
    env.pop("DJANGO_SETTINGS_MODULE", None)  # Celery would load all of Django with it
    process = subprocess.Popen(argv, cwd=PROJECT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def measure(url: str, database: "psycopg.Connection[Any]", redis_url: str, times: int) -> list[Row]:
    """Each so many times. `database` commits by itself."""
    tasks, rate = _tasks(redis_url, times)
    return [
        row("beside: a commit of one row", "ms", _commits(database, times)),
        row("beside: an answer of /healthz", "ms", _answers(url, times)),
        row("beside: a bare Celery task, dispatch", "ms", tasks),
        row("beside: bare Celery tasks, a second", "1/s", [rate]),
    ]


def _commits(database: "psycopg.Connection[Any]", times: int) -> list[float]:
    database.execute("CREATE TABLE bench_bare (id bigserial PRIMARY KEY)")
    try:
        return _timed(lambda: database.execute("INSERT INTO bench_bare DEFAULT VALUES"), times)
    finally:
        database.execute("DROP TABLE bench_bare")


def _answers(url: str, times: int) -> list[float]:
    caller = Caller(url)
    return _timed(lambda: caller.get("/healthz"), times)


def _timed(act: Callable[[], object], times: int) -> list[float]:
    """Milliseconds of each; the first few are not counted."""
    took = []
    for _ in range(WARM + times):
        began = time.perf_counter()
        act()
        took.append((time.perf_counter() - began) * 1000)
    return took[WARM:]


def _tasks(url: str, times: int) -> tuple[list[float], float]:
    """Milliseconds from the sending of each of so many, one after another, to its start; and how many a second all at once are."""
    app.conf.broker_url = broker_url(url)
    with redis.Redis.from_url(url, socket_timeout=2 * ANSWER_SECONDS) as answers, _worker(url):
        one_by_one = [_next(answers, send=True) for _ in range(WARM + times)][WARM:]
        began = time.perf_counter()
        for _ in range(times):
            stamp.delay(time.time())
        for _ in range(times):
            _next(answers, send=False)
        return one_by_one, times / (time.perf_counter() - began)


def _next(answers: redis.Redis, *, send: bool) -> float:
    if send:
        stamp.delay(time.time())
    answer = answers.brpop([ANSWERS], timeout=ANSWER_SECONDS)
    if answer is None:
        raise RuntimeError(f"the bare worker did not answer in {ANSWER_SECONDS} s")
    return float(answer[1]) * 1000
