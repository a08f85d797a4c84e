"""Opening HDF5 files, also inside a zip archive, and reading their attributes."""

from __future__ import annotations

import io
import lzma
import os
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

import h5py
import numpy as np

from p3vae.cli.base.errors import SceneError
from p3vae.cli.scenes.base import reading

_LOCAL_HEADER_BYTES = 30
_ENCRYPTED = 1
"""Flag of a member that needs a password."""
_COPY_BYTES = 1 << 22


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
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._section: FileSection | None = None
        with reading(path):
            try:
                with zipfile.ZipFile(path) as archive:
                    member = _only_member(path, archive, suffix)
                    self.member_name = PurePosixPath(member.filename).name
                    self.file = self._open(path, archive, member)
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
        if self._folder is not None:
            self._folder.cleanup()

    def _open(self, path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> h5py.File:
        if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & _ENCRYPTED:
            self._section = FileSection(path, _data_start(path, member), member.file_size)
            return h5py.File(self._section, "r")
        if member.flag_bits & _ENCRYPTED:
            raise SceneError(
                "is encrypted", path=path, remedy=f"unpack it and give the {Path(member.filename).suffix}"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="p3vae-")
        unpacked = Path(self._folder.name) / "scene.h5"
        with archive.open(member) as packed, unpacked.open("wb") as target:
            while block := packed.read(_COPY_BYTES):
                target.write(block)
        return h5py.File(unpacked, "r")


def open_hdf5(path: Path) -> h5py.File:
    """Opens an HDF5 file for reading."""
    with reading(path):
        return h5py.File(path, "r")


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
