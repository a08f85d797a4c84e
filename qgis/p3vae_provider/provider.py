"""The provider: its name, its setting, its algorithms."""

from __future__ import annotations

from processing.core.ProcessingConfig import ProcessingConfig, Setting
from qgis.core import QgsProcessingProvider

from .algorithms import ALGORITHMS
from .program import SETTING


class P3vaeProvider(QgsProcessingProvider):
    """Algorithms of p3vae."""

    def id(self) -> str:
        return "p3vae"

    def name(self) -> str:
        return "p3vae"

    def load(self) -> bool:
        """Add the setting for the path of the program."""
        ProcessingConfig.settingIcons[self.name()] = self.icon()
        setting = Setting(self.name(), SETTING, "Path of the p3vae program", "", valuetype=Setting.FILE)
        ProcessingConfig.addSetting(setting)
        ProcessingConfig.readSettings()
        self.refreshAlgorithms()
        return True

    def unload(self) -> None:
        ProcessingConfig.removeSetting(SETTING)

    def loadAlgorithms(self) -> None:  # noqa: N802 - called by QGIS
        for algorithm in ALGORITHMS:
            self.addAlgorithm(algorithm())
