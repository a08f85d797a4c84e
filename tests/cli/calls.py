"""Calls of the program in this process, and what a refused one must look like."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from p3vae.cli.main import main


def run(*arguments: object, **options: Any) -> Result:
    """A call with these words."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def succeed(*arguments: object, **options: Any) -> Result:
    """A call that has to end well."""
    done = run(*arguments, **options)
    assert done.exit_code == 0, done.output
    return done


def stdout_of(*arguments: object) -> str:
    """What a call that has to end well prints."""
    return succeed(*arguments).stdout


def refusal(code: int, *arguments: object) -> str:
    """What a refused call says, checked to be one line."""
    done = run(*arguments)
    assert done.exit_code == code, done.output
    assert done.stderr.startswith("Error: ") and len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr
