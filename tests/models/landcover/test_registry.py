"""The registry: one name, one class; an unknown name is refused, and listing names imports nothing heavy."""

import subprocess
import sys
from pathlib import Path

import pytest

from p3vae.models.landcover import baselines
from p3vae.models.landcover.estimator import OPTIONS, Estimator
from p3vae.models.landcover.registry import (
    UnknownModelError,
    estimator_names,
    estimator_type,
    learns_from_images,
)
from p3vae.models.landcover.types import TrainingSettings

CHOICES = [(name, "default") for name in estimator_names()] + [("p3vae", "paper")]


@pytest.mark.parametrize(("name", "preset"), CHOICES)
def test_every_name_is_an_estimator(name, preset):
    kind = estimator_type(TrainingSettings(model=name, preset=preset))
    members = {member for member in vars(Estimator) if not member.startswith("_")}
    assert not {member for member in members if not hasattr(kind, member)} - {"methods"}
    assert kind.supported_options <= set(OPTIONS)


def test_each_choice_has_a_class_of_its_own():
    kinds = [estimator_type(TrainingSettings(model=name, preset=preset)) for name, preset in CHOICES]
    assert len(set(kinds)) == len(CHOICES)


def test_a_file_in_baselines_is_a_model(monkeypatch, tmp_path):
    (tmp_path / "nearest_mean.py").write_text("class Nearest: ...\n\n\nESTIMATOR = Nearest\n")
    monkeypatch.setattr("p3vae.models.landcover.registry._BASELINES", tmp_path)
    monkeypatch.setattr(baselines, "__path__", [str(tmp_path)])
    assert "nearest-mean" in estimator_names()
    assert estimator_type(TrainingSettings(model="nearest-mean")).__name__ == "Nearest"
    sys.modules.pop("p3vae.models.landcover.baselines.nearest_mean")


def test_an_unknown_name_is_refused_with_those_there_are():
    with pytest.raises(UnknownModelError, match=r"'cn'; there are p3vae, .*random-forest"):
        estimator_type(TrainingSettings(model="cn"))


def test_only_fg_unet_learns_from_images():
    assert [name for name in estimator_names() if learns_from_images(TrainingSettings(model=name))] == [
        "fg-unet"
    ]


def test_names_come_without_torch():
    script = (
        "import sys; from p3vae.models.landcover.registry import estimator_names; estimator_names()\n"
        "print({'torch', 'numpy', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_baselines_hold_nothing_but_models():
    folder = Path(baselines.__file__).parent
    found = {
        path.stem.replace("_", "-") for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()
    }
    assert found - {"--init--", "--pycache--"} <= set(estimator_names())
