"""Small valid files of every kind that the program reads, and the calls that read them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import geopandas
import h5py
import numpy as np
import shapely

from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import UTM, UTM_TRANSFORM, WAVELENGTHS, envi_list, wavelength_tags

IMAGE = fixtures.truth(24, 20, len(WAVELENGTHS)).astype(np.float32)
CUBE = fixtures.truth(8, 6, 6)
ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = ROOT / "models" / "weights"
SWATH = next((ROOT / "sample_data").glob("PRS_L1*.he5"))


@dataclass(frozen=True)
class Sample:
    """A file to be damaged, those beside it, and the calls that read it."""

    kind: str
    path: Path
    calls: tuple[tuple[str, ...], ...]
    """Words of calls; "@" is the damaged file, "TOWN" and "SWATH" valid scenes, "OUT" the output folder."""


_SCENE = (("brightness", "@", "-o", "OUT"), ("info", "@"))


def _geotiff(path: Path) -> Path:
    return fixtures.raster(path, IMAGE, band_tags=wavelength_tags(WAVELENGTHS))


def _polygons(path: Path) -> Path:
    corners = [UTM_TRANSFORM @ corner for corner in ((2, 2), (12, 12), (14, 3), (19, 20))]
    shapes = [shapely.box(*corners[0], *corners[1]), shapely.box(*corners[2], *corners[3])]
    geopandas.GeoDataFrame({"class": ["a", "b"]}, geometry=shapes, crs=UTM).to_file(path)
    return path


def wind_field(path: Path) -> Path:
    """A field of 10 m wind, whose axes are references."""
    axes = {"valid_time": np.arange(3.0), "latitude": np.arange(43.0, 53), "longitude": np.arange(0.0, 12)}
    with h5py.File(path, "w") as file:
        for name, values in axes.items():
            file[name] = values
            file[name].make_scale(name)
        file["valid_time"].attrs["units"] = "hours since 2024-04-02"
        for name in ("u10", "v10"):
            file[name] = np.ones((3, 10, 12))
            file[name].attrs["units"] = "m s-1"
            for number, axis in enumerate(axes):
                file[name].dims[number].attach_scale(file[axis])
    return path


def _text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def make_samples(root: Path) -> list[Sample]:
    """Valid files, each in a folder of its own."""

    def folder(name: str) -> Path:
        (root / name).mkdir(parents=True, exist_ok=True)
        return root / name

    town = _geotiff(folder("town") / "town.tif")
    glt = np.stack(np.meshgrid(np.arange(1, 7), np.arange(1, 9)), axis=-1)
    emit = fixtures.emit(folder("emit"), "reflectance", CUBE, glt, np.ones(6))
    fixtures.emit_observation(folder("emit"), 30.0, 150.0, 5.0)
    fields = {"wavelength": envi_list(WAVELENGTHS), "wavelength units": "nm"}
    samples = [
        Sample("geotiff", _geotiff(folder("geotiff") / "scene.tif"), _SCENE),
        Sample("emit", emit, _SCENE),
        Sample("emit-l1b", fixtures.emit(folder("swath"), "radiance", CUBE, glt, np.ones(6)), _SCENE),
        Sample("tanager", fixtures.tanager(folder("tanager"), CUBE, WAVELENGTHS), _SCENE),
        Sample("prisma-l1", fixtures.prisma(folder("l1"), "1", CUBE, CUBE), _SCENE),
        Sample("prisma-l2d", fixtures.prisma(folder("l2d"), "2D", CUBE, CUBE), _SCENE),
        Sample("prisma-zip", fixtures.zipped(fixtures.prisma(folder("zip"), "1", CUBE, CUBE), 8), _SCENE),
        Sample(
            "mask-tif",
            _geotiff(folder("mask") / "m.tif"),
            (("brightness", "TOWN", "--mask", "@", "-o", "OUT"),),
        ),
    ]
    enmap = fixtures.enmap(
        folder("enmap"), "L2A", (IMAGE * 1e4).astype(np.int16), WAVELENGTHS, gain=1e-4, offset=0.0
    )
    metadata = next(enmap.parent.glob("*.XML"))
    samples += [Sample("enmap-tif", enmap, _SCENE), Sample("enmap-xml", metadata, _SCENE)]
    for interleave in ("bsq", "bil", "bip"):
        data = fixtures.envi(folder(interleave) / "a.img", IMAGE, interleave, fields)
        samples.append(Sample(f"envi-{interleave}-hdr", data.with_suffix(".hdr"), _SCENE))
    samples.append(Sample("envi-data", fixtures.envi(folder("data") / "a.img", IMAGE, "bip", fields), _SCENE))
    for name in ("p.gpkg", "p.geojson", "p.shp"):
        path = _polygons(folder(f"polygons-{name[2:]}") / name)
        samples.append(
            Sample(f"mask-{name[2:]}", path, (("brightness", "TOWN", "--mask", "@", "-o", "OUT"),))
        )
        samples.append(Sample(f"labels-{name[2:]}", path, (("labels", "@", "TOWN"),)))
    packed = fixtures.zipped(_polygons(folder("polygons-zip") / "p.shp"), 8, beside=(".shx", ".dbf", ".prj"))
    samples.append(Sample("mask-zip", packed, (("brightness", "TOWN", "--mask", "@", "-o", "OUT"),)))
    classes = fixtures.raster(folder("labels") / "l.tif", (IMAGE[..., :1] > 0.3).astype(np.uint8) + 1)
    samples.append(Sample("labels-tif", classes, (("labels", "@", "TOWN"),)))
    for weights in sorted(WEIGHTS.glob("*.p3vae")):
        model = folder("model") / weights.name
        model.write_bytes(weights.read_bytes())
        samples.append(
            Sample(
                "model", model, (("info", "TOWN", "-m", "@"), ("classify", "TOWN", "-m", "@", "-o", "OUT"))
            )
        )
    table = "wavelength_nm,fwhm_nm,good\n" + "".join(f"{nm},10,1\n" for nm in WAVELENGTHS)
    absorption = "wavelength_nm,absorption\n" + "".join(f"{nm},1e-6\n" for nm in range(2100, 2500, 5))
    methane = ("invert-methane", "SWATH", "--method", "mf", "-o", "OUT")
    made = fixtures.raster(folder("manifest") / "x_brightness.tif", IMAGE[..., :1])
    record = {"file": made.name, "size": 1, "sha256": "0", "width": 20, "height": 24, "side_files": ["x.qml"]}
    manifest = {"p3vae_version": "0.1.0", "request": {}, "products": [record], "earlier_runs": [{}]}
    sky = "wavelength_nm,direct,diffuse\n" + "".join(f"{nm},1000,200\n" for nm in range(300, 2600, 50))
    config = 'output = "OUT"\ntile-size = 7\nbad-bands = ["500-510"]\nscale = 1.0\n'
    return [
        *samples,
        Sample(
            "wavelengths",
            _text(folder("table") / "w.csv", table),
            (("info", "TOWN", "--wavelengths-file", "@"),),
        ),
        Sample(
            "irradiance",
            _text(folder("sky") / "s.csv", sky),
            (("classify", "TOWN", "--irradiance", "@", "-o", "OUT"),),
        ),
        Sample(
            "config",
            _text(folder("config") / "c.toml", config),
            (("brightness", "TOWN", "--config", "@", "-o", "OUT"),),
        ),
        Sample("absorption", _text(folder("gas") / "a.csv", absorption), ((*methane, "--absorption", "@"),)),
        Sample(
            "wind",
            _text(folder("wind") / "w.csv", f"scene,wind_m_s,wind_std_m_s\n{SWATH.name},4,1\n"),
            ((*methane, "--wind", "@"),),
        ),
        Sample("wind-netcdf", wind_field(folder("wind-netcdf") / "w.nc"), ((*methane, "--wind", "@"),)),
        Sample(
            "manifest",
            _text(made.with_name("x_p3vae.json"), json.dumps(manifest, indent=1)),
            (("verify", "@"), ("clean", "@", "--dry-run")),
        ),
        Sample("list", _text(folder("list") / "l.txt", f"{town}\n"), (("brightness", "@@", "-o", "OUT"),)),
    ]
