"""The broad classes of the model `earth`, and the materials inside them."""

from __future__ import annotations

from p3vae.models.landcover.types import ClassLegend

CLASSES = {
    "tree": (10, (0, 100, 0)),
    "grass and low vegetation": (30, (255, 255, 76)),
    "built-up": (50, (250, 0, 0)),
    "bare ground": (60, (180, 180, 180)),
    "snow and ice": (70, (240, 240, 240)),
    "water": (80, (0, 100, 200)),
    "dry vegetation": (110, (196, 154, 72)),
    "burnt": (120, (60, 20, 60)),
    "cloud": (130, (200, 225, 255)),
}
"""Id and colour by name. Ids up to 80 and their colours are those of ESA WorldCover, where they mean land
cover; here they mean the dominant material of a pixel."""

MATERIALS = {
    "needleleaf trees": "tree",
    "broadleaf trees": "tree",
    "grass": "grass and low vegetation",
    "shrubs and herbs": "grass and low vegetation",
    "asphalt": "built-up",
    "concrete and stone": "built-up",
    "brick": "built-up",
    "clay tile": "built-up",
    "dark roofing": "built-up",
    "metal": "built-up",
    "paint": "built-up",
    "plastic and membranes": "built-up",
    "soil": "bare ground",
    "wet soil": "bare ground",
    "sand and gravel": "bare ground",
    "rock": "bare ground",
    "snow": "snow and ice",
    "melting snow and ice": "snow and ice",
    "clear water": "water",
    "turbid water": "water",
    "muddy water": "water",
    "dry grass and litter": "dry vegetation",
    "wood and bark": "dry vegetation",
    "char and ash": "burnt",
    "water cloud": "cloud",
    "ice cloud": "cloud",
}
"""Class of each material."""


def legend() -> ClassLegend:
    """The classes in the order of their ids."""
    ids, colours = zip(*CLASSES.values(), strict=True)
    return ClassLegend(ids, tuple(CLASSES), colours)


def class_index() -> tuple[int, ...]:
    """Position of each material's class in the legend."""
    names = list(CLASSES)
    return tuple(names.index(MATERIALS[material]) for material in MATERIALS)
