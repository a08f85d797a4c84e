"""Reading class maps of any origin."""

from __future__ import annotations

import numpy as np
import rasterio

from p3vae.cli.rasters.maps import read_class_map

NAMES = "<Category></Category><Category>tile</Category><Category>soil</Category><Category>lawn</Category>"


def test_a_legend_has_the_named_classes_and_those_that_occur(tmp_path):
    """Soil is named and does not occur; 5 occurs and has no name."""
    path = tmp_path / "classes.tif"
    values = np.repeat(np.array([0, 1, 3, 5], np.uint8), 4).reshape(4, 4)
    profile = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "uint8", "nodata": 0}
    place = rasterio.Affine(30.0, 0.0, 5e5, 0.0, -30.0, 4.8e6)
    with rasterio.open(path, "w", crs="EPSG:32631", transform=place, **profile) as made:
        made.write(values, 1)
    band = f"<PAMRasterBand band='1'><CategoryNames>{NAMES}</CategoryNames></PAMRasterBand>"
    path.with_name("classes.tif.aux.xml").write_text(f"<PAMDataset>{band}</PAMDataset>")
    found = read_class_map(path)
    assert found.categories is not None
    listed = [(item.value, item.name) for item in found.categories.items]
    assert listed == [(1, "tile"), (2, "soil"), (3, "lawn"), (5, "class 5")]
    assert [found.pixels(value) for value, _ in listed] == [4, 0, 4, 4]
