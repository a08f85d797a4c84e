"""Files that appear in a folder together and whole, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from rasterio._err import CPLE_BaseError
from rasterio.errors import RasterioError

from p3vae.cli.base.errors import P3vaeError, ProductError
from p3vae.cli.base.signals import hold_signals

_SIDECARS = (".aux.xml", ".ovr", ".msk")


class Staging:
    """A hidden folder beside the final files, in which they are made.

    `commit` moves everything into place (same file system, so each move is atomic); leaving the
    `with` block in any other way removes every trace, including folders made for the output.
    Earlier products stay untouched until `commit`.
    """

    def __init__(
        self, folder: Path, names: Iterable[str], *, overwrite: bool = False, inputs: Iterable[Path] = ()
    ) -> None:
        """Check that `names` may be written into `folder`; nothing is created yet."""
        self.folder = folder
        self._names = tuple(names)
        spared = tuple(inputs)
        for name in self._names:
            require_free(folder / name, overwrite=overwrite, inputs=spared)
        self._made: list[Path] = []
        self._hidden: Path | None = None

    def __enter__(self) -> Self:
        with writing(self.folder):
            try:
                self._make_folders()
                self._hidden = Path(tempfile.mkdtemp(prefix=".p3vae-", dir=self.folder))
            except OSError as error:
                self._discard()
                raise ProductError(
                    f"cannot write into this folder: {error.strerror}",
                    path=self.folder,
                    remedy="choose another --output",
                ) from error
        return self

    def _make_folders(self) -> None:
        missing = [parent for parent in (self.folder, *self.folder.parents) if not parent.exists()]
        for parent in reversed(missing):
            parent.mkdir(exist_ok=True)
            self._made.append(parent)

    def path(self, name: str) -> Path:
        """Where the file that will be called `name` is made."""
        assert self._hidden is not None, "a Staging is used in a with block"
        return self._hidden / name

    def commit(self) -> None:
        """Move every staged file into place; side files first, the declared names after them."""
        assert self._hidden is not None, "a Staging is used in a with block"
        staged = sorted(self._hidden.iterdir(), key=lambda file: (file.name in self._names, file.name))
        with writing(self.folder), hold_signals():
            for file in staged:
                _sync(file)
            for file in staged:
                file.replace(self.folder / file.name)
            self._remove_stale_sidecars({file.name for file in staged})
            _sync(self.folder)
            self._made.clear()

    def _remove_stale_sidecars(self, staged: set[str]) -> None:
        """Statistics or overviews of the file that was replaced would lie about the new one."""
        for name in self._names:
            for suffix in _SIDECARS:
                if name + suffix not in staged:
                    (self.folder / (name + suffix)).unlink(missing_ok=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with hold_signals():
            self._discard()

    def _discard(self) -> None:
        if self._hidden is not None:
            shutil.rmtree(self._hidden, ignore_errors=True)
        for made in reversed(self._made):
            with suppress(OSError):
                made.rmdir()


def require_free(path: Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Refuse a file that may not be written: an input, a folder, or, without `overwrite`, any that exists."""
    with writing(path):
        if not path.exists():
            return
        if any(other.exists() and path.samefile(other) for other in inputs):
            raise ProductError("is an input and would be lost", path=path, remedy="choose another --output")
        if path.is_dir():
            raise ProductError("is a folder", path=path, remedy="choose another --output")
        if not overwrite:
            raise ProductError(
                "exists already", path=path, remedy="use --overwrite or choose another --output"
            )


def require_folder(folder: Path) -> None:
    """Refuse a folder into which nothing can be written, before the work that is to be kept there."""
    if not folder.is_dir():
        raise ProductError("the folder does not exist", path=folder, remedy="create it first")
    if not os.access(folder, os.W_OK):
        raise ProductError("cannot write into this folder", path=folder, remedy="choose another")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what GDAL and the system say about a failed write into a `ProductError` about `path`."""
    try:
        yield
    except P3vaeError:
        raise
    except (OSError, RasterioError, CPLE_BaseError) as error:
        raise _product_error(path, error) from error


def _product_error(path: Path, error: Exception) -> ProductError:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOSPC or _is_full(path):
        return ProductError(
            "the disk is full", path=path, remedy="free some space or choose another --output"
        )
    reason = os.strerror(number) if number else " ".join(str(error.__cause__ or error).split())[:200]
    return ProductError(
        f"cannot be written: {reason}", path=path, remedy="check the folder, or choose another --output"
    )


def _is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(_existing(path)).free < 2**20
    except OSError:
        return False


def require_space(folder: Path, needed: int) -> None:
    """Refuse to start a run whose files, `needed` bytes before compression, cannot fit on the disk."""
    try:
        free = shutil.disk_usage(_existing(folder)).free
    except OSError:
        return  # creating the folder will fail with the better message
    if free < needed:
        raise ProductError(
            f"the disk has {free / 2**20:.0f} MB free and the products need {needed / 2**20:.0f} MB",
            path=folder,
            remedy="free some space or choose another --output",
        )


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.absolute().parents) if parent.exists())


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
