"""Files that appear in a folder together and whole, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from rasterio.errors import RasterioError

from p3vae.cli.errors import P3vaeError, ProductError
from p3vae.cli.records import transactions
from p3vae.cli.scenes.gdal import gdal_errors
from p3vae.cli.scenes.inputs import require_no_input
from p3vae.cli.signals import hold_signals

_MORE_FOLDERS = 5
"""Times that an output folder is made again when another run, having failed, removes it."""


class Staging:
    """A hidden folder beside the final files, in which they are made: see `transactions`.

    `commit` moves everything into place; leaving the `with` block in any other way removes every trace,
    including folders made for the output. Earlier products stay untouched until `commit`.
    """

    def __init__(
        self,
        folder: Path,
        names: Iterable[str],
        mark: str,
        *,
        overwrite: bool = False,
        inputs: Iterable[Path] = (),
        replaceable: Iterable[str] = (),
    ) -> None:
        """Check that `names` may be written into `folder`; nothing is created yet.

        `mark` is moved last; it may exist if it is none of `names`. Those in `replaceable` may exist, too.
        """
        self.folder, self._mark = folder, mark
        self._names, self._overwrite, self._inputs = tuple(names), overwrite, tuple(inputs)
        self._replaceable = frozenset(replaceable)
        self._hidden = transactions.hidden_folder(folder.absolute(), mark)
        self._made: list[Path] = []
        self._handle: int | None = None
        with writing(folder):
            transactions.finish_dead_run(folder, mark)
        self._require_free()

    def __enter__(self) -> Self:
        with writing(self.folder):
            try:
                self._handle = self._claim()
                self._require_free()
            except P3vaeError:
                self._discard()
                raise
            except OSError as error:
                self._discard()
                raise ProductError(
                    f"cannot write into this folder: {error.strerror}",
                    path=self.folder,
                    remedy="choose another --output",
                ) from error
            except BaseException:
                self._discard()
                raise
        return self

    def _claim(self) -> int:
        for _ in range(_MORE_FOLDERS):
            with suppress(FileNotFoundError):
                self._make_folders()
                return transactions.claim(self._hidden.parent, self._mark)
        self._make_folders()
        return transactions.claim(self._hidden.parent, self._mark)

    def _make_folders(self) -> None:
        missing = [parent for parent in (self.folder, *self.folder.parents) if not parent.exists()]
        for parent in reversed(missing):
            parent.mkdir(exist_ok=True)
            self._made.append(parent)

    def _require_free(self) -> None:
        for name in self._names:
            overwrite = self._may_replace(name)
            require_free(self.folder / name, overwrite=overwrite, inputs=self._inputs)
            for beside in _files_beside(name):
                if overwrite:
                    require_no_input(self.folder / beside, self._inputs)
                else:
                    require_free(self.folder / beside)

    def _may_replace(self, name: str) -> bool:
        return self._overwrite or name in self._replaceable

    def path(self, name: str) -> Path:
        """Where the file that will be called `name` is made."""
        assert self._handle is not None, "a Staging is used in a with block"
        return self._hidden / transactions.NEW / name

    def add(self, name: str) -> None:
        """Announce one more file, under the same conditions as those named at first."""
        self._names = (*self._names, name)
        self._require_free()

    def commit(self, remove: Iterable[str] = ()) -> None:
        """Move every staged file into place, the mark last; earlier files called `remove` go with it."""
        assert self._handle is not None, "a Staging is used in a with block"
        with writing(self.folder), hold_signals():
            self._require_free()
            staged = {file.name for file in self.path("").iterdir()}
            replaced = {name for name in self._names if self._may_replace(name)}
            replaced |= {beside for name in replaced for beside in _files_beside(name)}
            replaced |= staged if self._overwrite else set()
            if self._mark not in self._names:
                replaced.add(self._mark)
            transactions.commit(self._hidden, self._mark, replaced | set(remove))
            self._made.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with hold_signals():
            self._discard()

    def _discard(self) -> None:
        if self._handle is not None:
            with suppress(OSError, ProductError):  # the next run goes on
                transactions.leave(self._hidden.parent, self._mark, self._handle)
            self._handle = None
        with suppress(OSError):
            self._hidden.rmdir()  # made, but its lock could not be
        for made in reversed(self._made):
            with suppress(OSError):
                made.rmdir()


def _files_beside(name: str) -> list[str]:
    """Names of files that belong to a product: its style, and what GDAL has noted about an earlier one."""
    end = Path(name).suffix
    styled = [f"{Path(name).stem}.qml"] if end in (".tif", ".gpkg") else []
    return styled + [name + side for side in transactions.SIDE_FILES if end == ".tif"]


def require_free(path: Path, *, overwrite: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Refuse a file that may not be written: an input, a folder, or, without `overwrite`, any that exists."""
    with writing(path):
        if not os.path.lexists(path):
            return
        require_no_input(path, inputs)
        if path.is_dir():
            raise ProductError("is a folder", path=path, remedy="choose another --output")
        if not overwrite:
            raise ProductError(
                "exists already", path=path, remedy="use --overwrite or choose another --output"
            )


def save(
    path: Path, write: Callable[[Path], object], *, overwrite: bool, inputs: Iterable[Path] = ()
) -> None:
    """Make one file by `write`, which gets the path to write to, and put it in its place when it is whole."""
    with Staging(path.parent, [path.name], path.name, overwrite=overwrite, inputs=inputs) as staging:
        with writing(path):
            write(staging.path(path.name))
        staging.commit()


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
        with gdal_errors():
            yield
    except P3vaeError:
        raise
    except (OSError, RasterioError) as error:
        raise _product_error(path, error) from error


def _product_error(path: Path, error: Exception) -> ProductError:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EMFILE or os.strerror(errno.EMFILE) in str(error):
        return ProductError(
            "cannot be written: too many files are open",
            path=path,
            remedy="raise the limit: ulimit -n 1024",
        )
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
            f"the disk has {free / 2**20:,.3g} MB free and the products need {needed / 2**20:,.3g} MB",
            path=folder,
            remedy="free some space or choose another --output",
        )


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.absolute().parents) if parent.exists())
