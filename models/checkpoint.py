"""One file format for every model: safetensors with a JSON card, hashed, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

if TYPE_CHECKING:  # a card is read without torch, which takes seconds to import
    import torch

    from p3vae.models.nn.trainer import TrainingState

FORMAT_VERSION = 1
_CARD_KEY = "p3vae"
_LARGEST_HEADER = 8 * 2**20
"""Of a model file [bytes]: cards hold names, settings and scores, never data."""
_PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")


class ModelFormatError(ValueError):
    """A file that is no model of ours, is damaged, or is too new."""


@dataclass(frozen=True, eq=False)
class ModelFile:
    """What one file holds."""

    kind: str
    """Which family of model, e.g. `landcover`."""
    card: Mapping[str, Any]
    """JSON values: classes, bands, illumination, settings, summary, hashes of the data."""
    tensors: Mapping[str, torch.Tensor]
    """Weights and physics constants."""

    @property
    def digest(self) -> str:
        """SHA-256 of kind, card and tensors, in hexadecimal."""
        return _digest(self.kind, self.card, self.tensors)


def write_model_file(path: str | Path, file: ModelFile) -> None:
    """Write atomically: the file appears whole, or the earlier one stays."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in file.tensors.items()}
    header = {"format": FORMAT_VERSION, "kind": file.kind, "sha256": file.digest, "card": dict(file.card)}
    _write_atomically(Path(path), save(tensors, metadata={_CARD_KEY: json.dumps(header, sort_keys=True)}))


def read_model_file(path: str | Path, *, kind: str, device: str = "cpu") -> ModelFile:
    """Read and check a file; `ModelFormatError` says what is wrong with it."""
    path = Path(path)
    with _opened(path, framework="pt", device=device) as opened:
        header = _header(path, (opened.metadata() or {}).get(_CARD_KEY))
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    file = ModelFile(header["kind"], header["card"], tensors)
    if header["sha256"] != file.digest:
        raise ModelFormatError(f"{path}: its content does not match its own hash; it was changed or damaged")
    if file.kind != kind:
        raise ModelFormatError(f"{path}: this is a {file.kind} model, a {kind} model is needed")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            raise ModelFormatError(f"{path}: its values {name!r} are not all numbers; train it again")
    return file


def read_card(path: str | Path) -> tuple[str, Mapping[str, Any]]:
    """Kind and card of a model file, without its tensors (and so without checking their hash)."""
    path = Path(path)
    with _opened(path, framework="np") as opened:
        header = _header(path, (opened.metadata() or {}).get(_CARD_KEY))
    return header["kind"], header["card"]


@contextmanager
def _opened(path: Path, **options: str) -> Iterator[Any]:
    """A safetensors file that is neither something else nor larger in its header than any model of ours."""
    if not path.is_file():
        raise ModelFormatError(f"{path}: there is no such model file")
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(_PICKLE_STARTS):
        raise ModelFormatError(f"{path}: a pickle or torch archive, which could run code; it is not opened")
    if len(start) == 8 and int.from_bytes(start, "little") > _LARGEST_HEADER:
        raise ModelFormatError(f"{path}: not a model file: its header is larger than any of ours")
    try:
        with safe_open(path, **options) as opened:
            yield opened
    except (SafetensorError, UnicodeError) as error:
        raise ModelFormatError(f"{path}: truncated or not a model file ({error})") from error


_STATE_KIND = "training-state"


def save_state(path: str | Path, state: TrainingState) -> None:
    """Keep an unfinished training, atomically."""
    write_model_file(
        path, ModelFile(_STATE_KIND, {"epoch": state.epoch, "notes": dict(state.notes)}, state.tensors)
    )


def load_state(path: str | Path) -> TrainingState:
    """An unfinished training written by `save_state`."""
    from p3vae.models.nn.trainer import TrainingState

    file = read_model_file(path, kind=_STATE_KIND)
    return TrainingState(int(file.card["epoch"]), file.tensors, dict(file.card["notes"]))


def _header(path: Path, text: str | None) -> dict[str, Any]:
    if text is None:
        raise ModelFormatError(f"{path}: a safetensors file, but not written by p3vae")
    try:
        header = json.loads(text)
        version = int(header["format"])
        if version > FORMAT_VERSION:
            raise ModelFormatError(
                f"{path}: written in format {version}, this version reads up to {FORMAT_VERSION}; "
                "upgrade p3vae"
            )
        return {"kind": str(header["kind"]), "sha256": str(header["sha256"]), "card": dict(header["card"])}
    except ModelFormatError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelFormatError(f"{path}: its card cannot be read") from error


def _digest(kind: str, card: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> str:
    """Independent of how the tensors are laid out in the file."""
    digest = hashlib.sha256(json.dumps([kind, dict(card)], sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def _write_atomically(path: Path, payload: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
