"""What products are called on screens, in the order in which they are listed."""

LAND_COVER_POLYGONS = "landcover_polygons"

TITLES = {
    "plumes": "Plumes",
    LAND_COVER_POLYGONS: "Land cover, polygons",
    "landcover": "Land cover",
    "landcover_smooth": "Land cover, smoothed",
    "confidence": "Confidence",
    "methane": "Methane [ppm m]",
    "methane_std": "Methane, std [ppm m]",
    "methane_sensitivity": "Methane, sensitivity",
    "plume_mask": "Plume mask",
    "quality": "Quality of the ground",
    "irradiance": "Direct sunlight",
    "irradiance_std": "Direct sunlight, std",
    "relit": "As flat, sunlit ground",
    "brightness": "Brightness",
    "probabilities": "Class probabilities",
}


def title_of(suffix: str) -> str:
    """A short title of the product SCENE_suffix."""
    return TITLES.get(suffix, suffix.replace("_", " ").capitalize())


def ordered(suffixes: list[str]) -> list[str]:
    """Known products in the order of `TITLES`, the others after them."""
    order = list(TITLES)
    return sorted(suffixes, key=lambda name: order.index(name) if name in TITLES else len(order))
