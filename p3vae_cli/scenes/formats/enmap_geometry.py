"""Where the pixels of EnMAP L1B lie: by the rational polynomials (RPC) of a detector."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
from rasterio.rpc import RPC
from rasterio.transform import RPCTransformer

from p3vae.cli.scenes.base import FloatArray, Geolocator
from p3vae.cli.scenes.tiling import Window

_COEFFICIENTS = 20
_NUMBERS = {
    "ROW_OFF": "line_off",
    "ROW_SCALE": "line_scale",
    "COL_OFF": "samp_off",
    "COL_SCALE": "samp_scale",
    **{
        f"{axis}_{end}": f"{axis}_{end}".lower()
        for axis in ("LAT", "LONG", "HEIGHT")
        for end in ("OFF", "SCALE")
    },
}
_LISTS = {
    "ROW_NUM": "line_num_coeff",
    "ROW_DEN": "line_den_coeff",
    "COL_NUM": "samp_num_coeff",
    "COL_DEN": "samp_den_coeff",
}


def geolocator(root: ET.Element, band: int) -> Geolocator | None:
    """Longitude and latitude [degree] of pixels as a band, counted from 0, sees them; None without RPC.

    They hold at the mean height of the scene: ground 100 m above it is misplaced by 100 m times the tangent
    of the view zenith.
    """
    models = root.findall("product/navigation/RPC/bandID")
    height = root.findtext("specific/meanGroundElevation")
    if len(models) <= band or height is None:
        return None
    model, metres = _rpc(models[band]), float(height)

    def locate(window: Window) -> tuple[FloatArray, FloatArray]:
        row, col = np.mgrid[window.slices]
        with RPCTransformer(model, RPC_HEIGHT=metres) as transformer:
            lon, lat = transformer.xy(row.ravel(), col.ravel(), offset="center")
        return np.reshape(lon, row.shape).astype(np.float64), np.reshape(lat, row.shape).astype(np.float64)

    return locate


def _rpc(band: ET.Element) -> RPC:
    fields = {child.tag.upper(): float(child.text or "nan") for child in band}
    values: dict[str, object] = {ours: fields[theirs] for theirs, ours in _NUMBERS.items()}
    for theirs, ours in _LISTS.items():
        numbered = {
            int(name.rpartition("_")[2]): value
            for name, value in fields.items()
            if name.startswith(f"{theirs}_")
        }
        if len(numbered) != _COEFFICIENTS:
            raise ValueError(f"{theirs} has {len(numbered)} coefficients")
        values[ours] = [numbered[place] for place in sorted(numbered)]
    return RPC(**values)
