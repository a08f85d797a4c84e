"""Interpreting what rasters say in words: units, lists, times, quantities, sun angles."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from p3vae.cli.scenes.base import Acquisition, FloatArray, Quantity

_NM_PER_UNIT = {"nm": 1.0, "nanomet": 1.0, "um": 1e3, "µm": 1e3, "μm": 1e3, "micro": 1e3, "micron": 1e3}
_POWER = re.compile(r"(?<![a-z])(u|µ|μ|m|micro|milli)?[ -]?w(?:atts?)?(?![a-z])")
_POWER_FACTOR = {None: 1.0, "m": 1e-3, "milli": 1e-3}
_WAVELENGTH_IN_WORDS = re.compile(r"(\d+(?:\.\d+)?)\s*(nm|nanomet\w*|um|µm|μm|microm\w*)\b", re.IGNORECASE)

_LONGEST_DESCRIPTION = 1000
"""Characters of a band's description that are searched, which takes the square of that."""


@dataclass(frozen=True)
class StatedQuantity:
    """What the metadata of a plain raster says about its values; None where it is silent."""

    quantity: Quantity | None
    unit_factor: float
    """To W m-2 sr-1 um-1 for radiance (1 when no unit is given), 1 for reflectance."""
    reflectance_scale: float | None
    """Stored value of reflectance 1."""


def numbers(text: str) -> FloatArray:
    """The numbers of a list such as "{ 400.1, 410.2 }"."""
    return np.array([float(item) for item in re.split(r"[,\s]+", text.strip(" {}\n\t")) if item])


def ignored_value(fields: Mapping[str, str]) -> float | None:
    """The nodata that a header states, also as a list in which every band has the same; None without one."""
    stated = numbers(fields.get("data_ignore_value", ""))
    if len(set(stated.tolist())) > 1:
        raise ValueError("data ignore value differs between bands")
    return float(stated[0]) if len(stated) else None


def nm_per_unit(unit: str | None, values: FloatArray) -> float:
    """Factor to nm; a missing unit is inferred from the size of the values (below 100 means µm)."""
    words = (unit or "").strip().lower()
    for start, factor in _NM_PER_UNIT.items():
        if words.startswith(start):
            return factor
    return 1e3 if np.nanmax(values, initial=0.0) < 100 else 1.0


def wavelength_in_words(text: str | None) -> float | None:
    """Wavelength [nm] named in a band description, e.g. "Band 3 (0.55 µm)"; None when there is none."""
    match = _WAVELENGTH_IN_WORDS.search((text or "")[:_LONGEST_DESCRIPTION])
    if match is None:
        return None
    value = float(match[1])
    return value * nm_per_unit(match[2], np.array([value]))


def radiance_factor(unit: str) -> float | None:
    """Factor from a spectral radiance unit in words to W m-2 sr-1 um-1; None when it is no such unit."""
    words = unit.lower().replace("steradian", "sr")
    power = _POWER.search(words)
    if power is None or "sr" not in words:
        return None
    per_area = 1e4 if re.search(r"cm|centimet", words) else 1.0
    per_nm = re.search(r"nm|nanomet", words)
    per_um = re.search(r"[uµμ]m|micromet|micron", words)
    if per_nm is None and per_um is None:
        return None
    return _POWER_FACTOR.get(power[1], 1e-6) * per_area * (1e3 if per_nm else 1.0)


def stated_quantity(fields: Mapping[str, str], units: str = "") -> StatedQuantity:
    """What the fields of a header (lower case, underscored) and a band unit say about the values."""
    scale = fields.get("reflectance_scale_factor")
    unit_text = " ".join([units, *(fields.get(key, "") for key in ("units", "data_units", "radiance_units"))])
    about = " ".join(
        [fields.get("quantity", ""), unit_text]
        + [fields.get(key, "") for key in ("z_plot_titles", "description", "band_names")]
    ).lower()
    factor = radiance_factor(unit_text)
    if factor is None and "radiance" in about:
        factor = radiance_factor(fields.get("description", ""))
    if scale is not None and float(scale) > 0:
        return StatedQuantity("reflectance", 1.0, float(scale))
    if "reflectance" in about and fields.get("quantity", "").lower() != "radiance":
        return StatedQuantity("reflectance", 1.0, None)
    if factor is not None or re.search(r"(?<!ir)radiance", about):
        return StatedQuantity("radiance", factor or 1.0, None)
    return StatedQuantity(None, 1.0, None)


_TIME_FIELDS = ("acquisition_time", "start_time", "time")


def acquisition(fields: Mapping[str, str]) -> Acquisition:
    """Sun, view and time from the fields of a header (lower case, underscored)."""
    elevation, zenith = _number(fields, "sun_elevation"), _number(fields, "sun_zenith", "sun_zenith_deg")
    if zenith is None and elevation is not None:
        zenith = 90.0 - elevation
    return Acquisition(
        sun_zenith_deg=zenith,
        sun_azimuth_deg=_number(fields, "sun_azimuth", "sun_azimuth_deg"),
        view_zenith_deg=_number(fields, "view_zenith", "view_zenith_deg"),
        time=next(filter(None, (utc_time(fields.get(name)) for name in _TIME_FIELDS)), None),
    )


def utc_time(text: str | None) -> datetime | None:
    """An ISO 8601 time; one without a zone is UTC, as in every product we read. None when it is no time."""
    if not text:
        return None
    text = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", text.strip(" {}\x00"))
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):  # no date, or one beyond the first or last year
        return None


def estimated_fwhm(wavelength_nm: FloatArray) -> FloatArray:
    """Widths [nm] as wide as the wider gap to a neighbour (ascending wavelengths), for files that give none.

    Gaps left by removed bands are capped at three times the median gap. A lone band gets 10 nm.
    """
    gaps = np.diff(wavelength_nm)
    if not np.any(gaps > 0):
        return np.full(len(wavelength_nm), 10.0)
    gaps = np.clip(gaps, None, 3.0 * np.median(gaps[gaps > 0]))
    widths: FloatArray = np.maximum(np.append(gaps, gaps[-1]), np.insert(gaps, 0, gaps[0]))
    return widths


def flags(text: str) -> npt.NDArray[np.bool_]:
    """A bad-band list (1 = good) as booleans."""
    return np.asarray(numbers(text) != 0)


def _number(fields: Mapping[str, str], *names: str) -> float | None:
    for name in names:
        try:
            number = float(fields[name].strip(" {}"))
        except (KeyError, ValueError):
            continue
        if math.isfinite(number):
            return number
    return None
