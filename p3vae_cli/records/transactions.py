"""One run, one transaction: a hidden folder with a lock, in which files are made before they appear together.

The folder `.p3vae-MARK` lies beside the final files and is named after the one that is moved last, the mark:
a set of products counts as complete when its mark is there. Its owner holds a lock of the operating system,
which a dead process cannot hold. Files are made in `new`. To commit them, the owner

1. moves what they replace into `old`, the mark first: a run that dies here is undone;
2. renames `new` to `whole`: from here on the run will be completed;
3. moves the files in `whole` to their places, the mark last, and removes the folder.

Whoever finds the folder of a dead run does what is left of this. That moves files from the hidden folder to
names that are free, and nothing else: no file outside of it is ever replaced or removed, whatever lies in it.
Nor is a folder believed that was unpacked, copied or restored: the lock holds its own inode number and that
of its folder, which are others then.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from p3vae.cli.errors import ProductError

PREFIX = ".p3vae-"
"""Of the names of hidden folders."""
LOCK, NEW, WHOLE, OLD = "lock", "new", "whole", "old"
SIDE_FILES = (".aux.xml", ".ovr", ".msk")
"""Ends of the files that GDAL reads with a raster."""
_LONGEST_NAME = 255
"""Of a file, on every usual file system [bytes]."""
_LOCK_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

State = Literal["in use", "to be finished", "to be removed", "foreign"]
"""Of a hidden folder; a foreign one was not made here by a run."""


class BusyError(ProductError):
    """Another run makes the same set."""


def hidden_folder(folder: Path, mark: str) -> Path:
    """Where the files of a run are made whose last one is called `mark`."""
    name = f"{PREFIX}{mark}"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f"{PREFIX}{hashlib.sha256(os.fsencode(mark)).hexdigest()}"
    return folder / name


def claim(folder: Path, mark: str) -> int:
    """The open lock of the hidden folder for `mark`, empty but for `new`; a dead run is finished or undone.

    BusyError while its run is alive, ProductError for a folder that no run has made here.
    """
    hidden = hidden_folder(folder, mark)
    while True:
        made = False
        with suppress(FileExistsError):
            hidden.mkdir()
            made = True
        try:
            handle = _open_lock(hidden)
        except FileNotFoundError:  # its owner has just removed the folder
            continue
        try:
            if not _locked(handle, fcntl.LOCK_EX):
                raise BusyError(
                    "another run is making it now", path=folder / mark, remedy="wait for it, or stop it"
                )
            if not _is_current(hidden, handle):
                os.close(handle)
                continue
            if os.fstat(handle).st_size == 0 and [*hidden.iterdir()] == [hidden / LOCK]:
                os.write(handle, _token(hidden, handle, mark))
                os.fsync(handle)
            _settle(hidden, _mark(hidden, handle))
            (hidden / NEW).mkdir()
        except BaseException:
            if made:
                with suppress(OSError):
                    (hidden / LOCK).unlink()
                    hidden.rmdir()
            os.close(handle)
            raise
        return handle


def _open_lock(hidden: Path) -> int:
    """Open the lock, made in an empty folder only: what else lies in one that has none is somebody else's."""
    if not stat.S_ISDIR(hidden.lstat().st_mode):
        raise _foreign(hidden)
    made = 0 if any(hidden.iterdir()) else os.O_CREAT
    try:
        handle = os.open(hidden / LOCK, os.O_RDWR | made | _LOCK_FLAGS, 0o644)
    except FileNotFoundError:
        there = {path.name for path in hidden.iterdir()}
        if there and LOCK not in there:
            raise _foreign(hidden) from None
        raise
    except PermissionError:  # of another user
        raise
    except OSError as error:
        if os.path.lexists(hidden / LOCK):  # a link or a folder
            raise _foreign(hidden) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _foreign(hidden)
    return handle


def _locked(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(hidden: Path, handle: int) -> bool:
    """Whether the folder and its lock were not removed since the lock was opened."""
    try:
        return os.path.samestat(os.fstat(handle), (hidden / LOCK).lstat())
    except FileNotFoundError:
        return False


def _token(hidden: Path, handle: int, mark: str) -> bytes:
    """What a run writes into its lock."""
    return b"p3vae %d %d\n" % (hidden.lstat().st_ino, os.fstat(handle).st_ino) + os.fsencode(mark)


def _mark(hidden: Path, handle: int) -> str:
    """Name of the file that is moved last, of a folder that a run has made here."""
    content = os.pread(handle, 2 * _LONGEST_NAME, 0)
    mark = os.fsdecode(content.partition(b"\n")[2])
    if content != _token(hidden, handle, mark) or hidden_folder(hidden.parent, mark) != hidden:
        raise _foreign(hidden)
    return mark


def _foreign(hidden: Path) -> ProductError:
    return ProductError(
        "was not made here by a run of p3vae, and is left alone", path=hidden, remedy="move or remove it"
    )


def state_of(hidden: Path) -> State:
    """What a hidden folder is; nothing is changed."""
    try:
        handle = os.open(hidden / LOCK, os.O_RDONLY | _LOCK_FLAGS)
    except OSError:
        return "foreign"
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return "foreign"
        if not _locked(handle, fcntl.LOCK_SH):
            return "in use"
        _mark(hidden, handle)
    except ProductError:
        return "foreign"
    finally:
        os.close(handle)
    return "to be finished" if (hidden / WHOLE).is_dir() else "to be removed"


def finish_dead_run(folder: Path, mark: str) -> None:
    """Finish or undo what a run left that was killed while it made the set `mark`; refuse a live one's."""
    hidden = hidden_folder(folder, mark)
    if os.path.lexists(hidden):
        leave(folder, mark, claim(folder, mark))


def clean(hidden: Path) -> None:
    """The same for a folder that is there."""
    handle = _open_lock(hidden)
    try:
        mark = _mark(hidden, handle)
    finally:
        os.close(handle)
    finish_dead_run(hidden.parent, mark)


def commit(hidden: Path, mark: str, replaced: Iterable[str]) -> None:
    """Put every file in `new` into its place, the mark last; the files called `replaced` go."""
    folder, new, old = hidden.parent, hidden / NEW, hidden / OLD
    for file in new.iterdir():
        sync(file)
    old.mkdir()
    for name in _mark_last(replaced, mark)[::-1]:
        if os.path.lexists(folder / name):
            (folder / name).replace(old / name)
    for changed in (new, old, folder):
        sync(changed)
    new.replace(hidden / WHOLE)
    sync(hidden)
    _settle(hidden, mark)


def leave(folder: Path, mark: str, handle: int) -> None:
    """Finish or undo the run that holds a lock, remove its hidden folder, and let others have the lock."""
    hidden = hidden_folder(folder, mark)
    try:
        with suppress(FileNotFoundError):
            _settle(hidden, mark)
            (hidden / LOCK).unlink()
            hidden.rmdir()
    finally:
        os.close(handle)


def _settle(hidden: Path, mark: str) -> None:
    """Complete a run that was decided, undo another; afterwards only the lock is left."""
    folder = hidden.parent
    ready = next((hidden / name for name in (WHOLE, OLD) if (hidden / name).is_dir()), None)
    if ready is not None:
        for name in _mark_last((file.name for file in ready.iterdir()), mark):
            if os.path.lexists(folder / name):
                raise ProductError(
                    "is in the way of what a run has made", path=folder / name, remedy="move it, run again"
                )
            (ready / name).replace(folder / name)
        sync(folder)
    for name in (OLD, NEW, WHOLE):  # without `whole`, `old` would be put back
        _remove(hidden / name)


def _remove(folder: Path) -> None:
    if folder.is_dir():
        for file in folder.iterdir():
            if file.is_dir() and not file.is_symlink():
                shutil.rmtree(file)
            else:
                file.unlink()
        folder.rmdir()


def _mark_last(names: Iterable[str], mark: str) -> list[str]:
    return sorted(names, key=lambda name: (name == mark, name))


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
