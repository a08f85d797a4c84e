"""Memory that the program no longer needs."""

from __future__ import annotations

import ctypes
import sys


def return_memory() -> None:
    """Give the system back what was freed: glibc keeps it, after learning a fifth of all memory."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
