"""One run, one transaction: a hidden folder with a lock, a list of what is to be moved, and moves in order.

The folder `.p3vae-MARK` lies beside the final files and is named after the one that is moved last, the mark:
a set of products counts as complete when its mark is there. The owner holds a lock of the operating system on
a file in it, which a dead process cannot hold. Once the list is on disk the run is decided: whoever finds the
folder without an owner finishes the moves. Without the list nothing was moved, and the folder is removed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from p3vae.cli.base.errors import ProductError

PREFIX = ".p3vae-"
"""Of the names of hidden folders."""
LOCK, LIST, REMOVALS = "lock", "moves.json", "removals.json"
SIDE_FILES = (".aux.xml", ".ovr", ".msk")
"""Ends of the files that GDAL reads with a raster."""


def hidden_folder(folder: Path, mark: str) -> Path:
    """Where the files of a run are made whose last one is called `mark`."""
    return folder / f"{PREFIX}{mark}"


def acquire(hidden: Path) -> int | None:
    """The open lock file of a hidden folder, which is made if needed; None while another run has the lock."""
    while True:
        if hidden.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(hidden))
        hidden.mkdir(exist_ok=True)
        try:
            handle = os.open(hidden / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # its owner has just removed the folder
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), (hidden / LOCK).stat()):
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # of a folder that was removed meanwhile


def is_locked(hidden: Path) -> bool:
    """Whether the owner of a hidden folder is alive; nothing is changed."""
    try:
        handle = os.open(hidden / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def release(hidden: Path, handle: int, *, keep: bool = False) -> None:
    """Remove a hidden folder, unless it is to be kept, and let others have its lock."""
    if not keep:
        shutil.rmtree(hidden, ignore_errors=True)
    os.close(handle)


@contextmanager
def owned(hidden: Path) -> Iterator[None]:
    """Hold the lock of a folder that a dead run left; ProductError while its run is alive."""
    handle = acquire(hidden)
    if handle is None:
        raise busy(hidden)
    try:
        yield
    except BaseException:
        release(hidden, handle, keep=True)
        raise
    release(hidden, handle)


class BusyError(ProductError):
    """Another run makes the same set."""


def busy(hidden: Path) -> BusyError:
    """The refusal to do what another run is doing."""
    mark = hidden.name.removeprefix(PREFIX)
    return BusyError(
        "another run is making it now", path=hidden.parent / mark, remedy="wait for it, or stop it"
    )


def finish_dead_run(folder: Path, mark: str) -> None:
    """Finish or remove what a run left that was killed while it made the set `mark`; refuse a live one's."""
    hidden = hidden_folder(folder, mark)
    if hidden.is_dir():
        with owned(hidden):
            complete(hidden)


def decide(hidden: Path, names: Sequence[str], remove: Sequence[str] = ()) -> None:
    """Put the list of moves on disk, the mark last: from here on the run will be completed.

    `remove` are files of an earlier run that are not part of the set any more.
    """
    if remove:
        (hidden / REMOVALS).write_text(json.dumps(list(remove)))
        sync(hidden / REMOVALS)
    listed = hidden / LIST
    draft = listed.with_suffix(".draft")
    draft.write_text(json.dumps(list(names)))
    sync(draft)
    draft.replace(listed)
    sync(hidden)


def complete(hidden: Path) -> None:
    """Do the moves of a decided run that are not done yet; nothing for a run that was not decided.

    The earlier mark goes first, so that files of two runs are never taken for one set.
    """
    names = _listed(hidden / LIST)
    if not names:
        return
    folder, mark = hidden.parent, names[-1]
    if (hidden / mark).exists():
        (folder / mark).unlink(missing_ok=True)
        sync(folder)
    for name in names:
        if (hidden / name).exists():
            (hidden / name).replace(folder / name)
    for name in set(_listed(hidden / REMOVALS)) - set(names):
        (folder / name).unlink(missing_ok=True)
    remove_stale(folder, names)
    sync(folder)
    (hidden / LIST).unlink()


def _listed(path: Path) -> list[str]:
    """Names of a list; empty without it, as for a run that was not decided."""
    try:
        names = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise ProductError("is not a list of moves", path=path, remedy="remove its folder") from error
    if not isinstance(names, list) or not all(_is_plain(name) for name in names):
        raise ProductError("lists other things than names", path=path, remedy="remove its folder")
    return names


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name


def remove_stale(folder: Path, names: Iterable[str]) -> None:
    """Statistics or overviews of a raster that was replaced would be wrong for the new one."""
    kept = set(names)
    for name in kept:
        for end in SIDE_FILES:
            if name + end not in kept:
                (folder / (name + end)).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
