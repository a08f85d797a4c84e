"""From a scene's spectra to named maps, tile by tile: one tile is read ahead while another is computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from p3vae.cli.scenes.tiling import SpectraTile, Window

Array = npt.NDArray[Any]

PixelFunction = Callable[[SpectraTile], Mapping[str, Array]]
"""From the spectra of a tile to named maps, each (rows, cols) or (bands, rows, cols).

It need not care for invalid pixels: whatever it returns there is replaced by nodata, but for maps that report
why pixels are invalid (`Sink.reports_invalid`). Nor need it care for
tiles that were read with pixels around them: what it returns there is dropped.
"""


class TileSource(Protocol):
    """Anything that yields spectra window by window: a `Scene`."""

    def read(self, window: Window) -> SpectraTile:
        """The spectra of one window."""


class Sink(Protocol):
    """Where one named map goes, window by window."""

    @property
    def nodata(self) -> float:
        """The value of pixels without a result."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored values."""

    @property
    def reports_invalid(self) -> bool:
        """Whether the map has something to say where spectra are invalid: it is stored as it is."""

    def write(self, window: Window, values: Array) -> None:
        """Store the values of one window, (rows, cols) or (bands, rows, cols)."""


class Progress(Protocol):
    """Somebody who wants to know how far a run is."""

    def begin(self, total_pixels: int) -> None:
        """A run over `total_pixels` starts."""

    def advance(self, pixels: int) -> None:
        """`pixels` more are done."""

    def end(self) -> None:
        """The run is over, well or badly."""


class NoProgress:
    """Tells nobody."""

    def begin(self, total_pixels: int) -> None:
        """Nothing to do."""

    def advance(self, pixels: int) -> None:
        """Nothing to do."""

    def end(self) -> None:
        """Nothing to do."""


def run(
    scene: TileSource,
    windows: Iterable[Window],
    function: PixelFunction,
    sinks: Mapping[str, Sink],
    *,
    progress: Progress | None = None,
    in_flight: int = 2,
    check: Callable[[], None] = lambda: None,
    around: Callable[[Window], Window] = lambda window: window,
) -> int:
    """Apply `function` to every window of `scene` and write its maps; returns the number of valid pixels.

    `around` says which window to read for the maps of another one, for functions that look at neighbours.
    One thread reads, this one computes, another writes. At most `in_flight` tiles of spectra exist
    at any time (one computed, the others read ahead). The first exception of any thread ends the run
    and is raised here, after the threads have stopped; so does what `check`, called for every tile, raises.
    """
    progress = progress or NoProgress()
    valid_pixels = 0
    writes: deque[Future[None]] = deque()
    with _worker("reader") as reader, _worker("writer") as writer:
        for window, tile in _read_ahead(scene, windows, around, reader, ahead=max(1, in_flight - 1)):
            check()
            inside = window.seen_from(tile.window).slices
            valid = tile.valid[inside]
            valid_pixels += int(np.count_nonzero(valid))
            if valid.any():
                maps = function(replace(tile, inside=inside))
                found = {name: values[..., *inside] for name, values in maps.items()}
                writes.append(writer.submit(_write, sinks, window, _masked(found, valid, sinks)))
            if len(writes) > in_flight:
                writes.popleft().result()
            progress.advance(window.pixels)
            del tile  # or it would live on while the next one is waited for
        for write in writes:
            write.result()
    return valid_pixels


@contextmanager
def _worker(name: str) -> Iterator[ThreadPoolExecutor]:
    executor = ThreadPoolExecutor(1, thread_name_prefix=f"p3vae-{name}")
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _read_ahead(
    scene: TileSource,
    windows: Iterable[Window],
    around: Callable[[Window], Window],
    reader: ThreadPoolExecutor,
    ahead: int,
) -> Iterator[tuple[Window, SpectraTile]]:
    remaining = iter(windows)
    reads: deque[tuple[Window, Future[SpectraTile]]] = deque()

    def submit_next() -> None:
        window = next(remaining, None)
        if window is not None:
            reads.append((window, reader.submit(scene.read, around(window))))

    for _ in range(ahead):
        submit_next()
    while reads:
        window, read = reads.popleft()
        tile = read.result()
        del read  # it holds the tile too
        submit_next()
        yield window, tile
        del tile


def _masked(
    maps: Mapping[str, Array], valid: npt.NDArray[np.bool_], sinks: Mapping[str, Sink]
) -> dict[str, Array]:
    """The maps in their stored types, with nodata where the spectra are invalid."""
    missing = sinks.keys() - maps.keys()
    if missing:
        raise KeyError(f"the function returned no map named {', '.join(sorted(missing))}")
    masked = {}
    for name, sink in sinks.items():
        stored = valid | sink.reports_invalid
        values = np.array(np.where(stored, maps[name], sink.nodata), dtype=sink.dtype)
        if values.shape[-2:] != valid.shape:
            raise ValueError(f"map {name} has shape {values.shape} for a tile of {valid.shape}")
        masked[name] = values
    return masked


def _write(sinks: Mapping[str, Sink], window: Window, maps: Mapping[str, Array]) -> None:
    for name, values in maps.items():
        sinks[name].write(window, values)
