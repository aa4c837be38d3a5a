"""Processes that die, or that see another clock: each a program of the tests that is run in a process of its own.

Each is a fork of one process that has loaded the libraries they all need and nothing that reads a setting or the environment: to load them
anew costs five times what such a program does.
"""

import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
_SECONDS = 120


def run(module: str, *arguments: str, environment: Mapping[str, str]) -> int:
    """As `python -m MODULE ARGUMENTS...` in the repository with exactly that environment; its exit status, negative for the signal that
    ended it. TimeoutError, once it is killed, if it has not ended after two minutes.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.victim_libraries"])
    process = context.Process(target=_become, args=(module, arguments, dict(environment)))
    process.start()
    process.join(_SECONDS)
    status = process.exitcode
    if status is None:
        process.kill()
        process.join()
        raise TimeoutError(f"{module} had not ended after {_SECONDS} s")
    process.close()
    return status


def _become(module: str, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
    os.chdir(REPOSITORY)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__")
