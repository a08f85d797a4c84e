"""The plugin: registers the provider, also for `qgis_process`, which has no window."""

from __future__ import annotations

from qgis.core import QgsApplication

from .provider import P3vaeProvider


class P3vaePlugin:
    """Adds and removes the provider."""

    def __init__(self) -> None:
        self._provider: P3vaeProvider | None = None

    def initProcessing(self) -> None:  # noqa: N802 - called by QGIS
        """Register the algorithms."""
        self._provider = P3vaeProvider()
        QgsApplication.processingRegistry().addProvider(self._provider)

    def initGui(self) -> None:  # noqa: N802 - called by QGIS
        """The same with a window."""
        self.initProcessing()

    def unload(self) -> None:
        """Take the algorithms away."""
        if self._provider is not None:
            QgsApplication.processingRegistry().removeProvider(self._provider)
