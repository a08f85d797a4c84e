"""Small scenes in the true layouts and file names of the products, made without any code under test.

Every maker takes the image as an analyst sees it, (rows, cols, bands) in physical units with ascending
wavelengths, and files it the way the product does. `truth` marks one asymmetric corner, so that a turned
or mirrored image cannot pass for the right one.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import h5py
import numpy as np
import rasterio
from rasterio.transform import Affine

PRISMA_L1 = "PRS_L1_STD_OFFL_20240402102837_20240402102842_0001.he5"
PRISMA_L2 = "PRS_L{level}_STD_20240402102837_20240402102842_0001.he5"
ENMAP = "ENMAP01-____{level}-DT0000001234_20230615T103115Z_001_V010402_20230616T001122Z"
TANAGER = "20250423_134021_00_4001_{kind}_hdf5.h5"
EMIT_RFL = "EMIT_L2A_RFL_001_20230815T102030_2322707_003.nc"
EMIT_RAD = "EMIT_L1B_RAD_001_20230815T102030_2322707_003.nc"
EMIT_OBS = "EMIT_L1B_OBS_001_20230815T102030_2322707_003.nc"

UTM = "EPSG:32633"
UTM_TRANSFORM = Affine(30.0, 0.0, 500_000.0, 0.0, -30.0, 4_600_000.0)

VNIR = np.array([402.4, 411.3, 700.25, 943.36, 962.9, 977.3])
SWIR = np.array([943.8, 951.0, 1300.5, 1650.75, 2100.125, 2497.0])
VNIR_FWHM = np.array([15.3, 13.9, 11.0, 12.1, 12.2, 12.3])
SWIR_FWHM = np.array([14.6, 14.7, 11.3, 11.9, 9.9, 8.8])
WAVELENGTHS = np.array([450.123456, 550.5, 650.25, 850.75, 1650.0, 2200.987654])


def truth(rows: int, cols: int, bands: int, low: float = 0.05, high: float = 0.6) -> np.ndarray:
    """Values that all differ, with a bright block in the upper right corner of the image."""
    ramp = np.linspace(low, high, rows * cols * bands).reshape(rows, cols, bands)
    ramp[:2, -1, :] += 0.3 * high
    return ramp


def _swath(image: np.ndarray) -> np.ndarray:
    """Image (rows N-S, cols W-E, bands) as filed: (across E-W, band, along N-S)."""
    return np.ascontiguousarray(image[:, ::-1, :].transpose(1, 2, 0))


def geolocation(rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    """Longitude and latitude of the image's pixel centres, inclined like a descending orbit."""
    row, col = np.mgrid[0:rows, 0:cols]
    return 12.0 + 0.0004 * col - 0.00005 * row, 45.0 - 0.00027 * row - 0.00006 * col


def smile(rows_across: int, centre: np.ndarray) -> np.ndarray:
    """Centre wavelengths by image column, growing from west to east."""
    return centre[None, :] + np.linspace(-1.0, 1.5, rows_across)[:, None]


def _filed(values: np.ndarray, pad_before: int, pad_after: int) -> np.ndarray:
    """A band list as filed: decreasing, with zeros for the unused bands at its start and end."""
    return np.concatenate([np.zeros(pad_before), values[::-1], np.zeros(pad_after)]).astype(np.float32)


def _pad_bands(cube: np.ndarray, before: int, after: int) -> np.ndarray:
    return np.pad(cube[:, ::-1, :], ((0, 0), (before, after), (0, 0)))


VNIR_PAD, SWIR_PAD = (3, 0), (0, 2)


def prisma(
    folder: Path,
    level: str,
    vnir: np.ndarray,
    swir: np.ndarray,
    *,
    errors: dict[str, np.ndarray] | None = None,
    offset: float = 0.0,
    low: float = 0.0,
    high: float = 1.0,
    epsg: int | None = 32633,
    text: type = bytes,
    swath: str = "HCO",
    with_location: bool = True,
) -> Path:
    """A PRISMA product of any level from images of VNIR and SWIR, (rows, cols, bands)."""
    path = folder / (PRISMA_L1 if level == "1" else PRISMA_L2.format(level=level))
    rows, cols = vnir.shape[:2]
    with h5py.File(path, "w") as file:
        group = file.create_group(f"HDFEOS/SWATHS/PRS_L{level}_{swath}")
        data = group.create_group("Data Fields")
        for name, image, pad in (("VNIR", vnir, VNIR_PAD), ("SWIR", swir, SWIR_PAD)):
            if level == "1":
                counts = np.round((image + offset) * 100.0)
            else:
                counts = np.round((image - low) * 65535.0 / (high - low))
            counts = np.nan_to_num(counts).astype(np.uint16)
            flags = (errors or {}).get(name, np.zeros(image.shape, np.uint8))
            for key, array in (
                (f"{name}_Cube", counts),
                (f"{name}_PIXEL_{'SAT' if level == '1' else 'L2'}_ERR_MATRIX", flags),
            ):
                filed = array.transpose(0, 2, 1) if level == "2D" else _swath(array)
                data[key] = np.ascontiguousarray(_pad_bands(filed, *pad))
        _prisma_attributes(file, level, offset=offset, low=low, high=high, text=text)
        if level == "2D":
            _prisma_map(file, rows, cols, epsg)
        lon, lat = geolocation(rows, cols)
        if with_location:
            where = group.create_group("Geolocation Fields")
            for suffix in ("_VNIR", "_SWIR") if level == "1" else ("",):
                for name, array in (("Longitude", lon), ("Latitude", lat)):
                    where[name + suffix] = array if level == "2D" else array[:, ::-1].T
        if level == "1":
            _prisma_smile(group, cols)
        else:
            zenith = np.full((rows, cols), 33.0)
            zenith[: rows // 3] = 0.0
            group["Geometric Fields/Solar_Zenith_Angle"] = zenith
            group["Geometric Fields/Observing_Angle"] = np.where(zenith > 0, 8.0, 0.0)
    return path


def _prisma_attributes(
    file: h5py.File, level: str, *, offset: float, low: float, high: float, text: type
) -> None:
    for name, centre, fwhm, pad in (("Vnir", VNIR, VNIR_FWHM, VNIR_PAD), ("Swir", SWIR, SWIR_FWHM, SWIR_PAD)):
        file.attrs[f"List_Cw_{name}"] = _filed(centre, *pad)
        file.attrs[f"List_Fwhm_{name}"] = _filed(fwhm, *pad)
        file.attrs[f"List_Cw_{name}_Flags"] = (_filed(centre, *pad) > 0).astype(np.uint8)
        if level == "1":
            file.attrs[f"ScaleFactor_{name}"] = np.float32(100.0)
            file.attrs[f"Offset_{name}"] = np.float32(offset)
        else:
            file.attrs[f"L2Scale{name}Min"] = np.float32(low)
            file.attrs[f"L2Scale{name}Max"] = np.float32(high)
    file.attrs["Sun_zenith_angle"] = np.float32(41.5)
    file.attrs["Sun_azimuth_angle"] = np.float32(151.25)
    for key, value in (("Processing_Level", level), ("Product_StartTime", "2024-04-02T10:28:37.932000")):
        file.attrs[key] = value.encode() if text is bytes else value


def _prisma_map(file: h5py.File, rows: int, cols: int, epsg: int | None) -> None:
    west, north = 500_015.0, 4_599_985.0  # centre of the upper left pixel of UTM_TRANSFORM
    east, south = west + 30.0 * (cols - 1), north - 30.0 * (rows - 1)
    for corner, x, y in (("UL", west, north), ("UR", east, north), ("LL", west, south), ("LR", east, south)):
        file.attrs[f"Product_{corner}corner_easting"] = x
        file.attrs[f"Product_{corner}corner_northing"] = y
    if epsg is not None:
        file.attrs["Epsg_Code"] = np.int32(epsg)


def _prisma_smile(group: h5py.Group, cols: int) -> None:
    for name, centre, fwhm, first in (("Vnir", VNIR, VNIR_FWHM, 100), ("Swir", SWIR, SWIR_FWHM, 81)):
        for kind, table in (("Cw", smile(cols, centre)), ("Fwhm", fwhm + 0.01 * np.arange(cols)[:, None])):
            matrix = np.zeros((cols, 256), np.float32)
            matrix[:, first : first + len(centre)] = table[::-1, ::-1]
            group[f"KDP_AUX/{kind}_{name}_Matrix"] = matrix


def zipped(path: Path, compression: int, member: str | None = None, beside: tuple[str, ...] = ()) -> Path:
    """The zip archive PRISMA is delivered in, or a shapefile with its parts of the ends `beside`."""
    archive = path.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w", compression) as target:
        target.writestr(zipfile.ZipInfo(member or path.name), path.read_bytes(), compression)
        for end in beside:
            target.write(path.with_suffix(end), path.with_suffix(end).name)
    path.unlink()
    return archive


def enmap(
    folder: Path, level: str, counts: np.ndarray, centre: np.ndarray, *, gain: float, offset: float
) -> Path:
    """EnMAP image and metadata; counts (rows, cols, bands) as filed. Returns the path of the image."""
    stem = ENMAP.format(level=level)
    image = folder / f"{stem}-SPECTRAL_IMAGE.TIF"
    raster(image, counts, transform=UTM_TRANSFORM, crs=UTM, tiled=True, blockxsize=16, blockysize=16)
    band = "".join(
        f'<bandID number="{number}"><wavelengthCenterOfBand>{wavelength}</wavelengthCenterOfBand>'
        f"<FWHMOfBand>{7.5 + number / 10}</FWHMOfBand><GainOfBand>{gain}</GainOfBand>"
        f"<OffsetOfBand>{offset}</OffsetOfBand></bandID>"
        for number, wavelength in enumerate(centre, start=1)
    )
    other = "".join(f'<bandID number="{number}"><x>0</x></bandID>' for number in range(1, len(centre) + 1))
    (folder / f"{stem}-METADATA.XML").write_text(
        f'<?xml version="1.0" encoding="UTF-8"?><level_X><base><level>{level}</level>'
        "<temporalCoverage><startTime>2023-06-15T10:31:15.123456Z</startTime></temporalCoverage></base>"
        "<product><image><channels/></image>"
        f"<quicklook>{other}</quicklook><defectivePixel>{other}</defectivePixel></product>"
        "<specific><sunElevationAngle><upper_left>61</upper_left><center>62.5</center></sunElevationAngle>"
        "<sunAzimuthAngle><center>149.75</center></sunAzimuthAngle>"
        "<acrossOffNadirAngle><center>-20</center></acrossOffNadirAngle>"
        "<alongOffNadirAngle><center>0</center></alongOffNadirAngle>"
        f"<bandCharacterisation>{band}</bandCharacterisation></specific></level_X>",
        encoding="utf-8",
    )
    return image


def enmap_l1b(
    folder: Path,
    vnir: np.ndarray,
    swir: np.ndarray,
    *,
    gain: float,
    offset: float,
    shift_rows: int = 20,
    centres: tuple[np.ndarray, np.ndarray] = (VNIR, SWIR),
) -> tuple[Path, Path]:
    """EnMAP L1B: two images (rows, cols, bands) of counts and one metadata file; the bands are VNIR and SWIR.

    Both images carry the same rough fit to the scene's corners.

    The polynomials are linear: SWIR sees the ground that VNIR saw `shift_rows` lines before. Longitude is
    12 + 0.0004 col, latitude 45 - 0.00027 row for VNIR, at 300 m; each metre above moves it by 1e-3 lines.
    """
    stem, rows, cols = ENMAP.format(level="L1B"), *vnir.shape[:2]
    images = []
    for name, counts in (("VNIR", vnir), ("SWIR", swir)):
        images.append(folder / f"{stem}-SPECTRAL_IMAGE_{name}.TIF")
        raster(images[-1], counts, crs="EPSG:4326", transform=Affine(0.0005, 0, 11.9, 0, -0.0003, 45.1))
    bands, models, other = "", "", ""
    for number, wavelength in enumerate(np.concatenate(centres), start=1):
        shift = shift_rows if number > vnir.shape[2] else 0
        bands += (
            f'<bandID number="{number}"><wavelengthCenterOfBand>{wavelength}</wavelengthCenterOfBand>'
            f"<FWHMOfBand>8.5</FWHMOfBand><GainOfBand>{gain}</GainOfBand>"
            f"<OffsetOfBand>{offset}</OffsetOfBand></bandID>"
        )
        models += f'<bandID number="{number}">{_rpc(rows, cols, shift)}</bandID>'
        other += f'<bandID number="{number}"><x>0</x></bandID>'
    (folder / f"{stem}-METADATA.XML").write_text(
        '<?xml version="1.0" encoding="UTF-8"?><level_X><base><level>L1B</level>'
        "<temporalCoverage><startTime>2023-06-15T10:31:15.123456Z</startTime></temporalCoverage></base>"
        f"<product><image><vnir><channels>{vnir.shape[2]}</channels></vnir>"
        f"<swir><channels>{swir.shape[2]}</channels></swir></image>"
        f"<quicklook>{other}</quicklook><navigation><RPC>{models}</RPC></navigation></product>"
        "<specific><meanGroundElevation>300</meanGroundElevation>"
        "<sunElevationAngle><center>62.5</center></sunElevationAngle>"
        "<sunAzimuthAngle><center>149.75</center></sunAzimuthAngle>"
        "<acrossOffNadirAngle><center>-20</center></acrossOffNadirAngle>"
        "<alongOffNadirAngle><center>0</center></alongOffNadirAngle>"
        f"<bandCharacterisation>{bands}</bandCharacterisation></specific></level_X>",
        encoding="utf-8",
    )
    return images[0], images[1]


def _rpc(rows: int, cols: int, shift: int) -> str:
    """Polynomials (1, longitude, latitude, height, ...) in coordinates from -1 to 1; rows count from 0."""
    fields = {
        "ROW_OFF": rows / 2, "COL_OFF": cols / 2, "LAT_OFF": 45.0 - 0.00027 * (rows / 2 + shift),
        "LONG_OFF": 12.0 + 0.0004 * cols / 2, "HEIGHT_OFF": 300.0, "ROW_SCALE": rows / 2,
        "COL_SCALE": cols / 2, "LAT_SCALE": 0.00027 * rows / 2, "LONG_SCALE": 0.0004 * cols / 2,
        "HEIGHT_SCALE": 500.0,
    }  # fmt: skip
    terms = {
        "ROW_NUM": {3: -1.0, 4: 0.5 / (rows / 2)},
        "ROW_DEN": {1: 1.0},
        "COL_NUM": {2: 1.0},
        "COL_DEN": {1: 1.0},
    }
    for name, given in terms.items():
        fields |= {f"{name}_{place:02d}": given.get(place, 0.0) for place in range(1, 21)}
    return "".join(f"<{name}>{value!r}</{name}>" for name, value in fields.items())


def tanager(
    folder: Path,
    image: np.ndarray,
    centre: np.ndarray,
    *,
    ortho: bool = False,
    field: str = "toa_radiance",
    unit: str = "W/(m^2 sr um)",
    located: tuple[np.ndarray, np.ndarray] | None = None,
) -> Path:
    """A Tanager product of an image (rows, cols, bands); the first column lies outside the footprint."""
    kind = ("ortho_" if ortho else "basic_") + ("radiance" if field == "toa_radiance" else "sr")
    path = folder / TANAGER.format(kind=kind)
    rows, cols, bands = image.shape
    with h5py.File(path, "w") as file:
        hyp = file.create_group(f"HDFEOS/{'GRIDS' if ortho else 'SWATHS'}/HYP")
        data, place = hyp.create_group("Data Fields"), hyp.create_group("Geolocation Fields")
        filed = image.transpose(2, 0, 1).astype(np.float32)
        filed[:, :, 0] = -9999.0
        cube = data.create_dataset(field, data=filed)
        cube.attrs["wavelengths"] = centre[None].astype(np.float32)
        cube.attrs["fwhm"] = np.full((1, bands), 5.5, np.float32)
        cube.attrs["_FillValue"] = np.float32(-9999.0)
        cube.attrs["Unit"] = unit
        outside = np.zeros((rows, cols), np.uint8)
        outside[:, 0] = 1
        data["nodata_pixels"] = outside
        data["beta_cloud_mask"] = np.zeros((rows, cols), np.uint8)
        for name, value in (("sun_zenith", 38.5), ("sun_azimuth", 141.0), ("sensor_zenith", 12.25)):
            data[name] = np.where(outside == 1, -9999.0, value).astype(np.float32)
        lon, lat = located or geolocation(rows, cols)
        place["Longitude"], place["Latitude"] = lon, lat
        place["Time"] = 1745415621.0 + 0.01 * np.arange(rows)  # 2025-04-23T13:40:21Z
        if ortho:
            left, top = UTM_TRANSFORM.c, UTM_TRANSFORM.f
            file["HDFEOS INFORMATION/StructMetadata.0"] = np.bytes_(
                'GROUP=GridStructure\n\tGROUP=GRID_1\n\t\tGridName="HYP"\n'
                f"\t\tXDim={cols}\n\t\tYDim={rows}\n"
                f"\t\tUpperLeftPointMtrs=({left:.6f},{top:.6f})\n"
                f"\t\tLowerRightMtrs=({left + 30 * cols:.6f},{top - 30 * rows:.6f})\n"
                "\t\tProjection=HE5_GCTP_UTM\n\t\tZoneCode=33\n\tEND_GROUP=GRID_1\nEND_GROUP=GridStructure\n"
            )
    return path


def emit(
    folder: Path,
    kind: str,
    swath: np.ndarray,
    glt: np.ndarray,
    good: np.ndarray,
    *,
    wavelengths: np.ndarray = WAVELENGTHS,
    location: tuple[np.ndarray, np.ndarray] | None = None,
    corner: tuple[float, float] = (12.0, 45.0),
    step: float = 0.000542,
) -> Path:
    """An EMIT granule; swath (downtrack, crosstrack, bands) as filed, glt (rows, cols, 2) of x, y from 1."""
    path = folder / (EMIT_RFL if kind == "reflectance" else EMIT_RAD)
    down, cross, bands = swath.shape
    with h5py.File(path, "w") as file:
        file[kind] = swath.astype(np.float32)
        file["sensor_band_parameters/wavelengths"] = wavelengths[:bands].astype(np.float32)
        file["sensor_band_parameters/fwhm"] = np.full(bands, 8.5, np.float32)
        file["sensor_band_parameters/good_wavelengths"] = good.astype(np.float32)
        file["location/glt_x"] = glt[..., 0].astype(np.int32)
        file["location/glt_y"] = glt[..., 1].astype(np.int32)
        lon, lat = location or emit_location(down, cross, glt)
        file["location/lon"], file["location/lat"] = lon, lat
        file["location/elev"] = np.zeros((down, cross))
        file.attrs["geotransform"] = np.array([corner[0], step, 0.0, corner[1], 0.0, -step])
        file.attrs["spatial_ref"] = rasterio.crs.CRS.from_epsg(4326).to_wkt()
        file.attrs["time_coverage_start"] = "2023-08-15T10:20:30+0000"
    return path


def emit_location(down: int, cross: int, glt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Longitude and latitude of the swath's pixel centres: the plane that fits the lookup table best."""
    row, col = np.nonzero((glt > 0).all(axis=2))
    sample, line = glt[row, col].T - 1.0
    planes, *_ = np.linalg.lstsq(
        np.column_stack([np.ones(len(row)), line, sample]),
        np.column_stack([col + 0.5, row + 0.5]),
        rcond=None,
    )
    lines, samples = np.mgrid[0:down, 0:cross]
    x, y = (p[0] + p[1] * lines + p[2] * samples for p in planes.T)
    return 12.0 + 0.000542 * x, 45.0 - 0.000542 * y


def emit_observation(folder: Path, sun_zenith: float, sun_azimuth: float, view_zenith: float) -> Path:
    """The OBS companion of the granule."""
    observed = np.full((20, 18, 11), -9999.0, np.float32)
    observed[..., 2], observed[..., 3], observed[..., 4] = view_zenith, sun_azimuth, sun_zenith
    observed[0, 0] = -9999.0
    with h5py.File(folder / EMIT_OBS, "w") as file:
        file["obs"] = observed
    return folder / EMIT_OBS


def raster(
    path: Path,
    image: np.ndarray,
    *,
    tags: dict[str, str] | None = None,
    band_tags: list[dict[str, str]] | None = None,
    imagery: list[dict[str, str]] | None = None,
    descriptions: list[str] | None = None,
    **profile: object,
) -> Path:
    """A GeoTIFF of an image (rows, cols, bands)."""
    rows, cols, bands = image.shape
    options = {"crs": UTM, "transform": UTM_TRANSFORM} | profile
    with rasterio.open(
        path, "w", driver="GTiff", width=cols, height=rows, count=bands, dtype=image.dtype, **options
    ) as target:
        target.write(image.transpose(2, 0, 1))
        target.update_tags(**(tags or {}))
        for band in range(bands):
            if band_tags:
                target.update_tags(band + 1, **band_tags[band])
            if imagery:
                target.update_tags(band + 1, ns="IMAGERY", **imagery[band])
            if descriptions:
                target.set_band_description(band + 1, descriptions[band])
    return path


def wavelength_tags(wavelengths: np.ndarray, unit: str = "Nanometers", **more: str) -> list[dict[str, str]]:
    """Band tags as GDAL copies them from ENVI."""
    return [{"wavelength": str(value), "wavelength_units": unit} | more for value in wavelengths]


def envi(
    path: Path,
    image: np.ndarray,
    interleave: str,
    fields: dict[str, str],
    *,
    big_endian: bool = False,
    skip: int = 0,
) -> Path:
    """An ENVI cube of an image (rows, cols, bands) and its header; returns the path of the cube."""
    code = {"u1": 1, "i2": 2, "i4": 3, "f4": 4, "f8": 5, "u2": 12}[image.dtype.str[1:]]
    order = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave]
    filed = image.transpose(order).astype(image.dtype.newbyteorder(">" if big_endian else "<"))
    path.write_bytes(b"\x07" * skip + filed.tobytes())
    rows, cols, bands = image.shape
    header = {
        "samples": cols,
        "lines": rows,
        "bands": bands,
        "header offset": skip,
        "file type": "ENVI Standard",
        "data type": code,
        "interleave": interleave,
        "byte order": int(big_endian),
        "map info": "{UTM, 1, 1, 500000, 4600000, 30, 30, 33, North, WGS-84}",
    } | fields
    lines = [f"{key} = {value}" for key, value in header.items() if value != ""]
    path.with_suffix(".hdr").write_text("ENVI\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def envi_list(values: np.ndarray) -> str:
    """A list as ENVI writes it, over several lines."""
    return "{\n " + ",\n ".join(str(value) for value in values) + "}"
