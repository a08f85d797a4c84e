"""Examples at the end of every `--help`, on the sample data or on names that explain themselves."""

from __future__ import annotations

EXAMPLES = {
    "info": ("p3vae info scene.tif", "p3vae info scene.tif -m town.p3vae"),
    "models": ("p3vae models",),
    "classify": (
        "p3vae classify sample_data/town.tif -o maps",
        "p3vae classify scene.tif -m town.p3vae --unknown -o maps",
        'p3vae classify "archive/*.tif" -m town.p3vae -o maps',
    ),
    "irradiance-map": (
        "p3vae irradiance-map scene.tif -o maps",
        "p3vae irradiance-map scene.tif --relight -o maps",
    ),
    "invert-methane": (
        "p3vae invert-methane PRS_L1_STD_OFFL_....he5 --wind 4 -o methane",
        'p3vae invert-methane "archive/PRS_L1*.he5" -o methane',
    ),
    "train": (
        "p3vae train scene.tif --labels polygons.gpkg -o town.p3vae",
        "p3vae train scene.tif --labels polygons.gpkg --class-field name -o town.p3vae",
        "p3vae train scene.tif --labels polygons.gpkg --model random-forest -o rf.p3vae",
    ),
    "assess": (
        "p3vae assess maps/town_landcover.tif --reference points.gpkg",
        "p3vae assess a_landcover.tif --reference truth.tif --compare b_landcover.tif",
        "p3vae assess maps/town_irradiance.tif --reference irradiance_truth.tif",
    ),
    "sample": (
        "p3vae sample maps/town_landcover.tif -o points.gpkg",
        '(label the field "class" of every point in QGIS, then)',
        "p3vae assess maps/town_landcover.tif --reference points.gpkg",
    ),
    "report": (
        "p3vae classify town.tif -o maps && p3vae report maps",
        "p3vae report maps -m town.p3vae --reference points.gpkg -o town.html",
    ),
    "qgis": ("p3vae classify town.tif -o maps && p3vae qgis maps && qgis maps/p3vae.qgz",),
    "explain": (
        "p3vae explain town.tif -m town.p3vae --pixel 72,40",
        "p3vae explain town.tif -m town.p3vae --at 373072.5,4829959.5 -o pixel.html",
        "p3vae explain town.tif -m town.p3vae --at 1.427,43.61 --crs EPSG:4326",
    ),
    "suggest": (
        "p3vae suggest town.tif -m town.p3vae -o label_these.gpkg",
        "(label them in QGIS, add them to your polygons, train again)",
    ),
    "spectra": (
        "p3vae spectra town.p3vae -o town.sli",
        "p3vae spectra town.p3vae -o town.csv -o town.html",
    ),
    "stats": (
        "p3vae stats maps/town_landcover.tif --zones parcels.gpkg --zone-field name",
        "p3vae stats maps/town_irradiance.tif --zones parcels.gpkg --csv light.csv",
    ),
    "change": ("p3vae change 2023/town_landcover.tif 2024/town_landcover.tif -o change.tif",),
    "smooth": ("p3vae smooth maps/town_landcover.tif -o maps/town_smooth.tif --radius 2",),
    "polygons": ("p3vae polygons maps/town_landcover.tif -o town.gpkg",),
    "brightness": ('p3vae brightness "archive/*.he5" -o quick',),
    "verify": ("p3vae verify maps",),
    "clean": ("p3vae clean maps",),
    "simulate": (
        "p3vae simulate -o town.tif",
        "p3vae simulate -o . --layout prisma-l1 --plume 15000",
    ),
    "reproduce": (
        "p3vae reproduce all --quick",
        "p3vae reproduce simulated --data DIR --seeds 3 -o tables",
    ),
}
"""Lines by command."""


def epilog(command: str) -> str | None:
    """The end of a help text; None without examples."""
    lines = EXAMPLES.get(command)
    if lines is None:
        return None
    return "\n".join(["\b", "Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])
