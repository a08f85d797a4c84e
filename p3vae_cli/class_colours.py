"""Colours of land-cover classes by their names: water is blue, whatever its place in the legend.

Names are looked up word by word in English, German, French, Spanish and Italian, singular or plural. Classes
of the same kind get shades; names that say nothing get a palette whose colours people with any colour vision
tell apart (Okabe and Ito, https://jfly.uni-koeln.de/color/).
"""

from __future__ import annotations

import colorsys
import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence

from p3vae.cli.colours import hex_colour, rgb_colour

KINDS = {
    "#1f78b4": (
        "water river lake sea ocean canal pond wasser gewasser fluss see meer teich eau riviere "
        "fleuve lac mer etang agua rio lago mar acqua fiume"
    ),
    "#eaf4fb": "snow ice glacier schnee eis gletscher neige glace nieve hielo neve ghiaccio",
    "#cfd2d6": "cloud wolke nuage nube nuvola",
    "#23232e": "shadow shade schatten ombre sombra ombra",
    "#3b2a20": "burnt burned fire verbrannt brule quemado bruciato",
    "#5aa9a3": "wetland marsh swamp reed moor sumpf marais humedal palude",
    "#c8b560": "dry senescent straw stubble trocken stroh sec paille seco secco paglia",
    "#1b6e2e": (
        "tree forest wood woodland conifer coniferous deciduous broadleaf pine oak baum wald "
        "nadelwald laubwald arbre foret bois arbol bosque albero foresta bosco"
    ),
    "#7c8f2f": (
        "shrub bush hedge heath orchard vineyard strauch busch hecke obst weinberg arbuste "
        "buisson haie verger vigne arbusto matorral vinedo cespuglio vigneto"
    ),
    "#8fc24a": (
        "grass lawn meadow pasture grassland herbaceous gras rasen wiese weide grunland herbe "
        "pelouse prairie pature hierba cesped pasto pradera erba prato pascolo"
    ),
    "#e2c044": (
        "crop field agriculture agricultural cropland farmland corn maize wheat barley soybean "
        "oats alfalfa hay acker feld getreide mais weizen culture champ ble cultivo campo trigo "
        "coltivo grano"
    ),
    "#4f9d3a": "vegetation plant green vegetated pflanze vegetacion vegetazione",
    "#e8d8a4": "sand beach dune strand sable plage arena playa sabbia spiaggia",
    "#a3773f": "soil bare earth ground mud clay boden erde lehm sol terre suelo tierra suolo terra nudo",
    "#9c958a": (
        "rock gravel stone rubble quarry mineral fels kies stein schotter roche gravier pierre "
        "roca grava piedra roccia ghiaia pietra"
    ),
    "#4d4f55": (
        "asphalt road street parking tarmac bitumen highway strasse asphalte route rue asfalto "
        "carretera calle strada"
    ),
    "#b9b8b0": (
        "concrete pavement paved sidewalk cement beton pflaster gehweg ciment trottoir hormigon "
        "acera cemento marciapiede"
    ),
    "#7a5a86": "rail railway railroad bahn gleis schiene ferrocarril ferrovia",
    "#c4622d": "tile brick ziegel tuile brique teja ladrillo tegola mattone",
    "#8fa3b8": "metal sheet steel blech metall tole acier chapa acero lamiera",
    "#d17db0": (
        "plastic greenhouse tarpaulin kunststoff plastik gewachshaus plastique serre plastico "
        "invernadero serra"
    ),
    "#b5362c": (
        "built building urban house roof impervious residential commercial settlement gebaude "
        "stadt haus dach siedlung versiegelt bati batiment urbain maison toit edificio edifici "
        "urbano casa techo tetto edificato"
    ),
}
"""Colours, by the words that ask for them."""
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442", "#666666")
_KIND_OF = {word: colour for colour, words in reversed(KINDS.items()) for word in words.split()}
_LIGHTER, _HUE = 0.14, 0.02
"""Steps of lightness and hue between classes of one kind [1]."""
_DARKEST, _LIGHTEST = 0.2, 0.88
_NEAREST, _GOLDEN, _COLOURED = 12, 0.618034, 0.4
"""Shades near their kind; later ones go around the circle of hues by the golden ratio, and are no grey."""
_ENDINGS = ("", "s", "es", "en", "e", "n", "er", "x")
"""Of plurals."""


def class_colours(names: Sequence[str], given: Mapping[str, str | None] | None = None) -> list[str]:
    """A colour #rrggbb for each class; those that are not `given`, by name in any case, are all different."""
    own = {name.casefold(): colour for name, colour in (given or {}).items() if colour}
    free = itertools.cycle(PALETTE)
    taken = {own[name.casefold()] for name in names if name.casefold() in own}
    found = []
    for name in names:
        if name.casefold() in own:
            found.append(own[name.casefold()])
            continue
        kind = kind_colour(name)
        base = kind or next(free)
        shades = itertools.chain([base], (_shaded(base, step) for step in itertools.count(1)))
        colour = next(shade for shade in shades if shade not in taken)
        taken.add(colour)
        found.append(colour)
    return found


def kind_colour(name: str) -> str | None:
    """The colour that the first known word of a name asks for; None for a name that says nothing."""
    plain = unicodedata.normalize("NFKD", name.casefold().replace("ß", "ss"))
    words = re.findall("[a-z]+", plain.encode("ascii", "ignore").decode())
    return next((colour for word in words if (colour := _kind(word)) is not None), None)


def _kind(word: str) -> str | None:
    for ending in _ENDINGS:
        stem = word.removesuffix(ending) if ending else word
        if stem in _KIND_OF and (ending == "" or stem != word):
            return _KIND_OF[stem]
    return None


def _shaded(colour: str, step: int) -> str:
    """A neighbour of a colour: lighter and darker by turns; after the nearest hues, any that is left."""
    red, green, blue = (part / 255 for part in rgb_colour(colour))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    sign = 1 if step % 2 == (lightness < 0.6) else -1
    near = step <= _NEAREST
    hue += sign * _HUE * ((step + 1) // 2) if near else step * _GOLDEN
    lightness = min(max(lightness + sign * _LIGHTER, _DARKEST), _LIGHTEST)
    parts = colorsys.hls_to_rgb(hue % 1.0, lightness, saturation if near else max(saturation, _COLOURED))
    return hex_colour([round(255 * part) for part in parts])
