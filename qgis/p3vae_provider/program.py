"""Finding and calling the p3vae program."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from processing.core.ProcessingConfig import ProcessingConfig
from qgis.core import QgsProcessingException, QgsProcessingFeedback

SETTING = "P3VAE_EXECUTABLE"
_MISSING = (
    "the p3vae program was not found: give its path in Settings > Options > Processing > Providers > p3vae, "
    "or in the environment variable P3VAE_EXECUTABLE"
)
_OF_QGIS = ("PYTHONHOME", "PYTHONPATH")
"""Variables that would lead the other Python into the libraries of QGIS."""


def executable() -> str:
    """Path of the program, by the setting, the environment or the PATH."""
    for named in (ProcessingConfig.getSetting(SETTING), os.environ.get(SETTING)):
        if named:
            if Path(named).is_file() and os.access(named, os.X_OK):
                return str(named)
            raise QgsProcessingException(f"{named} is no program: {_MISSING}")
    found = shutil.which("p3vae")
    if found is None:
        raise QgsProcessingException(_MISSING)
    return found


def call(arguments: Sequence[str], feedback: QgsProcessingFeedback) -> list[str]:
    """Run `p3vae arguments`; its lines on stdout.

    What it says on stderr is shown; the last line of it is the error if it fails.
    """
    command = [executable(), *arguments]
    feedback.pushCommandInfo(" ".join(command))
    environment = {key: value for key, value in os.environ.items() if key not in _OF_QGIS}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", env=environment
    )
    said: list[str] = []
    listener = threading.Thread(target=_listen, args=(process, feedback, said))
    listener.start()
    lines: list[str] = []
    speaker = threading.Thread(target=lambda: lines.extend(line.rstrip() for line in process.stdout))
    speaker.start()
    while process.poll() is None:
        if feedback.isCanceled():
            process.terminate()
        speaker.join(0.2)
    listener.join()
    speaker.join()
    if process.returncode:
        raise QgsProcessingException(said[-1] if said else f"p3vae failed with code {process.returncode}")
    return lines


def _listen(process: subprocess.Popen, feedback: QgsProcessingFeedback, said: list[str]) -> None:
    for line in process.stderr:
        if line.strip():
            said.append(line.rstrip())
            feedback.pushInfo(line.rstrip())
