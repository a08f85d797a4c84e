"""Maps the top-level folders onto one import root, `p3vae`, so nothing named `models` is ever installed."""

from setuptools import find_packages, setup

PACKAGES = {
    "p3vae.cli": "p3vae_cli",
    "p3vae.physics": "physics",
    "p3vae.models": "models",
    "p3vae.paper": "paper",
}
ROOT = "p3vae_cli/root"
"""The folder of `p3vae/__init__.py` itself."""

setup(
    package_dir={"p3vae": ROOT, **PACKAGES},
    packages=[
        "p3vae",
        *(
            package
            for name, folder in PACKAGES.items()
            for package in (name, *(f"{name}.{sub}" for sub in find_packages(folder, exclude=["root"])))
        ),
    ],
)
