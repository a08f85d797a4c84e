"""Ctrl-C and SIGTERM: made to wait for a safe moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from p3vae.cli.errors import InterruptedRunError, P3vaeError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(
    remedy: str = "no product is half-written; run it again", *, once_checked: bool = False
) -> Iterator[Callable[[], None]]:
    """Make Ctrl-C and SIGTERM wait for a safe moment: the next call of the check that this yields.

    The check raises `InterruptedRunError` with `remedy`; it is called once more on leaving.
    An exception thrown out of a signal handler may strike anywhere, also inside the standard library's
    own clean-up. A second signal does so all the same, for the impatient; with `once_checked`, any signal
    before the first check, where nothing can be lost. Signals can only be caught in the main thread;
    elsewhere the check never raises.
    """
    received: list[int] = []
    patient = not once_checked

    def receive(number: int, _frame: FrameType | None) -> None:
        if received or not patient:
            raise KeyboardInterrupt
        received.append(number)

    def check() -> None:
        nonlocal patient
        patient = True
        if received:
            name = signal.Signals(received[0]).name
            raise InterruptedRunError(f"stopped by {name}", remedy=remedy)

    with _handlers(receive):
        yield check
        check()


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Make SIGTERM a KeyboardInterrupt too, where Ctrl-C may strike anywhere.

    What fails because of the signal is the signal's: a compiled library struck while it is imported gives
    an `ImportError`.
    """
    received: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    try:
        with _handlers(receive):
            yield
    except Exception as error:
        if received and not isinstance(error, P3vaeError):
            raise KeyboardInterrupt from error
        raise


def ignore_stop_signals() -> None:
    """From now on Ctrl-C and SIGTERM change nothing: for a program that has done its work and is leaving."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def hold_signals() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM waiting while files are moved into place, then deliver them."""
    held: list[int] = []
    with _handlers(lambda number, _frame: held.append(number)):
        yield
    if held:
        signal.raise_signal(signal.Signals(held[0]))


@contextmanager
def _handlers(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handler) for number in caught}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
