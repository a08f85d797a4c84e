"""Opening HDF5 files, also inside a zip archive, and reading their attributes."""

from __future__ import annotations

import errno
import io
import lzma
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

import h5py
import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import reading
from p3vae.cli.scenes.identity import FileIdentity

Made = TypeVar("Made")

_LOCAL_HEADER_BYTES = 30
_ENCRYPTED = 1
"""Flag of a member that needs a password."""
_COPY_BYTES = 1 << 22
_LARGEST_TABLE = 10_000_000
"""Values of a table that is read whole: wavelengths of every detector element."""


class FileSection(io.RawIOBase):
    """A part of a file that behaves like a file of its own: a stored member of a zip archive."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        self._file = path.open("rb")
        self._start, self._size, self._position = start, size, 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As for any file."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """As for any file."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer, never beyond the section."""
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._size - self._position))
        count = os.preadv(self._file.fileno(), [view[:length]], self._start + self._position) if length else 0
        self._position += count
        return count

    def close(self) -> None:
        """As for any file."""
        if not self.closed:
            self._file.close()
        super().close()


class Hdf5Archive:
    """An HDF5 file inside a zip archive, read in place when stored, else unpacked until closed."""

    def __init__(self, path: Path, suffix: str) -> None:
        self._unpacked: IO[bytes] | None = None
        self._section: FileSection | None = None
        with reading(path):
            try:
                with zipfile.ZipFile(path) as archive:
                    member = _only_member(path, archive, suffix)
                    self.member_name = PurePosixPath(member.filename).name
                    self.file = self_contained(path, self._open(path, archive, member))
            except (zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
                self.close()
                raise SceneError(
                    f"is a damaged zip: {error}", path=path, remedy="download it again"
                ) from error
            except NotImplementedError as error:
                self.close()
                raise SceneError(
                    "is packed in a way that cannot be read here",
                    path=path,
                    remedy=f"unpack it with another program and give the {suffix}",
                ) from error
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Closes the file and removes what was unpacked."""
        if hasattr(self, "file"):
            self.file.close()
        if self._section is not None:
            self._section.close()
        if self._unpacked is not None:
            self._unpacked.close()

    def _open(self, path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> h5py.File:
        if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & _ENCRYPTED:
            self._section = FileSection(path, _data_start(path, member), member.file_size)
            return h5py.File(self._section, "r")
        if member.flag_bits & _ENCRYPTED:
            raise SceneError(
                "is encrypted", path=path, remedy=f"unpack it and give the {Path(member.filename).suffix}"
            )
        with archive.open(member) as packed:
            self._unpacked = _unpacked(path, packed, member.file_size)
        return h5py.File(self._unpacked, "r")


def _unpacked(path: Path, packed: IO[bytes], size: int) -> IO[bytes]:
    """A temporary file with the content of a member; nameless: nothing remains of a killed process."""
    try:
        room = shutil.disk_usage(tempfile.gettempdir()).free
        target = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the archive
    except OSError as error:
        raise SceneError(
            f"cannot be unpacked: no usable folder for temporary files ({error.strerror or error})",
            path=path,
            remedy="set TMPDIR to one, or unpack it and give the file in it",
        ) from error
    try:
        if size > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        while block := packed.read(_COPY_BYTES):
            target.write(block)
        target.flush()
    except OSError as error:
        target.close()
        if error.errno != errno.ENOSPC:
            raise
        raise SceneError(
            f"unpacked it takes {size / 2**20:,.1f} MB, and {tempfile.gettempdir()} has too little room",
            path=path,
            remedy="set TMPDIR to a larger folder, or unpack it and give the file in it",
        ) from error
    except BaseException:
        target.close()
        raise
    return target


def open_hdf5(path: Path) -> h5py.File:
    """Opens an HDF5 file for reading, if all its data are inside."""
    with reading(path):
        FileIdentity.of(path)
        return self_contained(path, h5py.File(path, "r"))


def open_as(path: Path, make: Callable[[Path, h5py.File], Made]) -> Made:
    """What `make` reads from an HDF5 file, which stays open for it; closed again if that fails."""
    file = open_hdf5(path)
    try:
        with reading(path):
            return make(path, file)
    except BaseException:
        file.close()
        raise


def self_contained(path: Path, file: h5py.File) -> h5py.File:
    """The same file; SceneError, and the file closed, if any of its data are kept in other files."""
    try:
        foreign = file.id.links.visit(_foreign_link, info=True) or file.visititems(_foreign_data)
    except BaseException:
        file.close()
        raise
    if not foreign:
        return file
    file.close()
    raise SceneError(
        f"refers to data in other files ({foreign})", path=path, remedy="download the original product"
    )


def _foreign_link(name: bytes, info: Any) -> str | None:
    if info.type in (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT):
        return None
    return name.decode(errors="replace")


def _foreign_data(name: str, node: h5py.HLObject) -> str | None:
    if isinstance(node, h5py.Dataset) and (node.external or node.is_virtual):
        return name
    return None


def group(parent: h5py.Group, name: str) -> h5py.Group:
    """A group; ValueError for data in its place, in which a search by name would look at every value."""
    found = parent[name]
    if not isinstance(found, h5py.Group):
        raise ValueError(f"{name} is no group")
    return found


def small_array(dataset: h5py.Dataset) -> npt.NDArray[np.float64]:
    """All values of a table; ValueError when it claims to be larger than any table of a product is."""
    if dataset.size > _LARGEST_TABLE:
        raise ValueError(f"{dataset.name} claims {dataset.size} values")
    return np.asarray(dataset, dtype=np.float64)


def attribute(node: h5py.HLObject, name: str) -> Any:
    """An attribute; a one-element array comes as its element."""
    if name not in node.attrs:
        raise KeyError(f"the attribute {name} is missing")
    value = node.attrs[name]
    return value.item() if isinstance(value, np.ndarray) and value.size == 1 else value


def text(value: Any) -> str:
    """A text attribute, which writers store as bytes, as str or as numpy strings."""
    if isinstance(value, np.ndarray):
        value = value.ravel()[0]
    decoded = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
    return decoded.strip("\x00 ")


def _only_member(path: Path, archive: zipfile.ZipFile, suffix: str) -> zipfile.ZipInfo:
    members = [member for member in archive.infolist() if member.filename.lower().endswith(suffix)]
    if len(members) != 1:
        raise SceneError(
            f"holds {len(members)} {suffix} files", path=path, remedy=f"unpack it and give one {suffix}"
        )
    name = members[0].filename
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in name:
        raise SceneError(
            f"holds a member with an unsafe name, {name!r}", path=path, remedy="download it again"
        )
    return members[0]


def _data_start(path: Path, member: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: after its local header, whose fixed part ends with two lengths."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
    return (
        member.header_offset
        + len(header)
        + sum(int.from_bytes(header[i : i + 2], "little") for i in (26, 28))
    )
