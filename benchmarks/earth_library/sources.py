"""Reflectance spectra of materials, from the libraries named in `SOURCES` and from physical models.

Spectra are brought to the bands of `BANDS` as they are read. Fabrics, chemicals, single minerals, flowers and
lichens are left out: they are no land cover. So are wooden roofs, which no spectrum tells from dead wood.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from p3vae.physics.snow import snow_albedo
from p3vae.physics.spectral_response import Bands, gaussian_average_matrix
from p3vae.physics.water import water_reflectance

from .legend import MATERIALS

FloatArray = npt.NDArray[np.float64]

_STEP_NM = 10.0
_GAPS_NM = ((1335.0, 1465.0), (1785.0, 1965.0))
"""Where water vapour hides the ground, and where the libraries have no values [nm]."""
_FIRST_NM, _LAST_NM = 410.0, 2440.0
_MODELLED = 150
"""Spectra of a modelled material."""

_SEDIMENT = {"clear water": (0.1, 2.0), "turbid water": (2.0, 15.0), "muddy water": (15.0, 300.0)}
"""Range of suspended sediment [g m-3]."""
_GREEN_NDVI, _DRY_NDVI = 0.6, 0.55
"""A measured plot is green vegetation from this NDVI on, and dry below the other; others are mixtures [1]."""


_WHEEL_SHA256 = "05cf6ed65487d4a8683e4c2da58c4904e3893bc020200c29f65dfbee73de7b87"


class Source(NamedTuple):
    """A library, its terms, and the file it is read from; no file where it is computed."""

    name: str
    file: str
    sha256: str
    terms: str
    reference: str


SOURCES = {
    "usgs": Source(
        "USGS Digital Spectral Library splib06a",
        "usgs_splib06a.npz",
        "51f9b038b230684ef4d6dbb8297db24ec326bed09ee6635e6014290bd979c058",
        "public domain",
        "Clark et al. 2007, USGS Data Series 231",
    ),
    "slum": Source(
        "Spectral Library of Urban Materials (SLUM)",
        "slum.npz",
        "e79b22ea8c2c6283d56a5d3f88e8b744f926f4ca92729619b8e5401e7cc9c3f7",
        "CC0",
        "Kotthaus et al. 2014, doi:10.1016/j.isprsjprs.2014.05.005",
    ),
    "icraf-isric": Source(
        "ICRAF-ISRIC soil spectral library",
        "earthlib-1.1.0-py3-none-any.whl",
        _WHEEL_SHA256,
        "CC-BY 4.0",
        "World Agroforestry (ICRAF) and ISRIC 2021, doi:10.34725/DVN/MFHA9C",
    ),
    "prosail": Source(
        "PROSAIL canopies of earthlib",
        "earthlib-1.1.0-py3-none-any.whl",
        _WHEEL_SHA256,
        "MIT",
        "C. Anderson, earthlib 1.1.0; Jacquemoud et al. 2009, doi:10.1016/j.rse.2008.01.026",
    ),
    "santa-barbara": Source(
        "Santa Barbara urban spectral library",
        "earthlib-1.1.0-py3-none-any.whl",
        _WHEEL_SHA256,
        "MIT (earthlib); only statistics are shipped, no spectrum",
        "Herold et al. 2004, doi:10.1016/j.rse.2004.02.013",
    ),
    "fire-science": Source(
        "Joint Fire Science Program spectra",
        "earthlib-1.1.0-py3-none-any.whl",
        _WHEEL_SHA256,
        "MIT (earthlib)",
        "C. Anderson, earthlib 1.1.0",
    ),
    "hyspiri": Source(
        "HyspIRI simulation spectra",
        "earthlib-1.1.0-py3-none-any.whl",
        _WHEEL_SHA256,
        "MIT (earthlib)",
        "C. Anderson, earthlib 1.1.0",
    ),
    "model": Source(
        "Water and snow by p3vae.physics",
        "",
        "",
        "Apache 2.0",
        "Lee et al. 1999, doi:10.1364/AO.38.003831; Kokhanovsky and Zege 2004, doi:10.1364/AO.43.001589",
    ),
}


def model_bands() -> Bands:
    """Bands of the model: every 10 nm from 410 to 2440 nm, without the water-vapour gaps."""
    centres = np.arange(_FIRST_NM, _LAST_NM + 1, _STEP_NM)
    kept = np.ones(len(centres), np.bool_)
    for low, high in _GAPS_NM:
        kept &= (centres < low) | (centres > high)
    return Bands.from_centres(centres[kept], np.full(int(kept.sum()), _STEP_NM))


@dataclass(frozen=True, eq=False)
class MaterialSpectra:
    """Spectra of one material from one source, (spectra, bands) [reflectance]."""

    material: str
    source: str
    reflectance: FloatArray


_USGS: tuple[tuple[str, str], ...] = (
    (r"Asphalt_Shingle|Asphalt_Tar|Roofing_Felt|Tar_Paper", "dark roofing"),
    (r"Asphalt GDS376", "asphalt"),
    (r"Brick", "brick"),
    (r"Concrete|Cinder_Block", "concrete and stone"),
    (r"GalvanizedSheetMetal|Sheet_Metal|Rusted_Tin", "metal"),
    (r"Painted_Aluminum|Coated_Steel", "paint"),
    (r"Fiberglass GDS33|Plastic_(?:PVC|Tarp|Vinyl GDS372|HDPE GDS351)|Plastic GGA", "plastic and membranes"),
    (r"Plastic_LDPE GDS406", "plastic and membranes"),
    (r"Basalt|Pyroxene_Basalt|Limestone|Hydrated_Volc_Tuff|Desert_Varnish", "rock"),
    (r"Chlorite_Phyllite|Actinolite-Hornfels", "rock"),
    (r"Stonewall_Playa|Phlogopite_Sand", "sand and gravel"),
    (r"BurnArea", "char and ash"),
    (r"(?:Douglas-Fir|Espruce-Sfir|Lodgepole-Pine|Whitebark-Pine) YNP", "needleleaf trees"),
    (r"Aspen YNP", "broadleaf trees"),
    (r"Grass-|Lawn_Grass GDS91 \(Green\)|Sedge YNP|Wetland YNP", "grass"),
    (r"Sagebrush YNP|Willow|LeafySpurge .*(?:Jun|Jul)|Cattail YNP", "shrubs and herbs"),
    (r"Grass_Golden|Dry_Long_Grass|Cheatgrass|Tumbleweed|Oak Oak-Leaf-2", "dry grass and litter"),
    (r"Melting_snow mSnw\w+ +(?:\(slush\) +)?W1R1", "melting snow and ice"),
    (r"Seawater", "clear water"),
    (r"Water\+Montmor", "muddy water"),
)  # fmt: skip
"""Material of a spectrum by its title; the first that matches counts."""
_RANGELAND = re.compile(r"Rangeland \S+ S(\d+)% ?G(\d+)%")
_SLUM = {
    "A": "asphalt",
    "B": "brick",
    "C": "concrete and stone",
    "G": "concrete and stone",
    "L": "dark roofing",
    "R": "clay tile",
    "S": "concrete and stone",
    "V": "plastic and membranes",
    "X": "concrete and stone",
    "Z": "metal",
}
"""Material by the first letter of the sample."""
_EARTHLIB = {
    "asphalt": "asphalt",
    "road": "asphalt",
    "parking_lot": "asphalt",
    "bridge": "concrete and stone",
    "sidewalk": "concrete and stone",
    "concrete_tile": "concrete and stone",
    "comp_shingle": "dark roofing",
    "tile": "clay tile",
    "metal": "metal",
    "paint": "paint",
    "gravel": "sand and gravel",
    "sand": "sand and gravel",
    "dirt": "soil",
    "soil": "soil",
    "char": "char and ash",
    "bark": "wood and bark",
    "wood": "wood and bark",
    "litter": "dry grass and litter",
    "npv": "dry grass and litter",
}
"""Material by earthlib's third level."""
_EARTHLIB_SOURCES = {
    "icraf-isric-soil-database": "icraf-isric",
    "prosail": "prosail",
    "urban reflectance spectra from santa barbara": "santa-barbara",
    "joint fire science program": "fire-science",
    "hyspiri simulation spectra": "hyspiri",
    "usgs": "usgs",
}
"""Source by earthlib's column SOURCE or else NOTES."""


def read_spectra(folder: Path, wheel: Path, without: tuple[str, ...] = ()) -> list[MaterialSpectra]:
    """All spectra at the model's bands, by material and source; sources in `without` are left out."""
    found: dict[tuple[str, str], list[FloatArray]] = {}
    for material, source, spectrum in (*_usgs(folder), *_slum(folder), *_earthlib(wheel), *_modelled()):
        if source not in without:
            found.setdefault((material, source), []).append(spectrum)
    return [MaterialSpectra(*key, np.stack(spectra)) for key, spectra in found.items()]


_Labelled = Iterator[tuple[str, str, FloatArray]]
"""Material, source and spectrum."""


def _usgs(folder: Path) -> _Labelled:
    table = np.load(folder / SOURCES["usgs"].file)
    at_bands = _resampler(table["wavelength_nm"])
    for title, reflectance in zip(table["title"], table["reflectance"], strict=True):
        material, spectrum = _usgs_material(str(title)), at_bands(reflectance)
        if material is not None and MATERIALS[material] in ("tree", "grass and low vegetation"):
            material = _by_greenness(material, spectrum)
        if material is not None:
            yield material, "usgs", spectrum


def _by_greenness(material: str, spectrum: FloatArray) -> str | None:
    """The material of a vegetated plot, of which many hold litter and soil as well."""
    red, infrared = np.interp((670, 860), model_bands().wavelength_nm, spectrum)
    ndvi = (infrared - red) / (infrared + red)
    if ndvi >= _GREEN_NDVI:
        return material
    return "dry grass and litter" if ndvi < _DRY_NDVI else None


def _usgs_material(title: str) -> str | None:
    if cover := _RANGELAND.match(title):
        soil, green = int(cover[1]), int(cover[2])
        if green >= 40:
            return "grass"
        return "dry grass and litter" if soil <= 20 and green <= 15 else None
    return next((material for pattern, material in _USGS if re.match(pattern, title)), None)


def _slum(folder: Path) -> _Labelled:
    table = np.load(folder / SOURCES["slum"].file)
    at_bands = _resampler(table["wavelength_nm"])
    for code, reflectance in zip(table["code"], table["reflectance"], strict=True):
        yield _SLUM[str(code)[0]], "slum", at_bands(reflectance)


def _earthlib(wheel: Path) -> _Labelled:
    """Read inside the wheel: an ENVI library of float32 spectra with a table beside it."""
    with zipfile.ZipFile(wheel) as archive:
        header = archive.read("earthlib/data/spectra.sli.hdr").decode()
        rows = [
            line.split(",") for line in archive.read("earthlib/data/spectra.csv").decode().splitlines()[1:]
        ]
        values = np.frombuffer(archive.read("earthlib/data/spectra.sli"), "<f4").reshape(len(rows), -1)
    listed = re.search(r"wavelength = \{([^}]*)\}", header)
    assert listed is not None
    at_bands = _resampler(1e3 * np.array(listed[1].split(","), dtype=np.float64))
    for row, reflectance in zip(rows, values, strict=True):
        kind, notes = row[3], row[8]
        source = _EARTHLIB_SOURCES.get(row[7]) or _EARTHLIB_SOURCES[notes]
        material = "grass" if source == "prosail" else _EARTHLIB.get(kind)
        if material is not None:
            yield material, source, at_bands(reflectance)


def _modelled() -> _Labelled:
    """Water and snow by the models of `p3vae.physics`, with what they carry drawn at random."""
    nm = model_bands().wavelength_nm
    rng = np.random.default_rng(0)
    for _ in range(_MODELLED):
        chlorophyll, dissolved = 10 ** rng.uniform(-1, 1.3), 10 ** rng.uniform(-2, 0.3)
        glint = rng.exponential(0.01)
        clear = {"chlorophyll": chlorophyll, "dissolved": dissolved, "glint": glint}
        for material, (low, high) in _SEDIMENT.items():
            sediment = 10 ** rng.uniform(np.log10(low), np.log10(high))
            yield material, "model", water_reflectance(nm, sediment=sediment, **clear)
        yield "snow", "model", snow_albedo(nm, rng.uniform(10, 70), 10 ** rng.uniform(0, 2.5))
        old = snow_albedo(nm, 10 ** rng.uniform(-0.7, 1), 10 ** rng.uniform(1, 3.5))
        yield "melting snow and ice", "model", rng.uniform(0.5, 1) * old


def _resampler(wavelength_nm: npt.NDArray[Any]) -> Callable[[npt.NDArray[Any]], FloatArray]:
    """A function that averages spectra at `wavelength_nm` over the model's bands; NaN is interpolated."""
    knots = np.asarray(wavelength_nm, np.float64)
    bands = model_bands()

    def at_bands(values: npt.NDArray[Any]) -> FloatArray:
        known = np.isfinite(values)
        weights = gaussian_average_matrix(knots[known], bands.wavelength_nm, bands.fwhm_nm)
        return np.asarray(np.clip(values[known].astype(np.float64) @ weights, 1e-3, None))

    return at_bands
