"""A QGIS Processing provider that calls the p3vae program of another environment."""


def classFactory(iface):  # noqa: N802 - the name QGIS looks for
    """What QGIS calls to load the plugin."""
    from .plugin import P3vaePlugin

    return P3vaePlugin()
