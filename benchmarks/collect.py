"""Collects the tables of `results/` on one page with a line of explanation each.

    python benchmarks/collect.py        # or: make measured

Writes `docs/measured.md`.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "measured.md"

INTRODUCTION = """# What was measured

Every table has its command above it and its raw numbers as JSON in `benchmarks/results/`. Accuracy, F1 and
shares go from 0 to 1. *Posterior* is the class by the full model, *classifier* by q(y|x) alone. z is
the direct light of a pixel, δ·cosΘ. `make measured` writes this page from the results.
"""

SECTIONS = (
    (
        "Land cover",
        (
            ("landcover_real", "Real scenes with labels on other ground, ten splits run once."),
            ("landcover_potsdam", "EnMAP Potsdam, with its own split."),
            ("landcover_light", "Simulated light, towns and their shadows, Toulouse relit."),
            ("landcover_ablation", "One mechanism left out at a time."),
            ("other_scenes", "A trained model on changed scenes, under another sun, in other bands."),
            ("unknown", "Ground that the model never learned."),
            ("earth", "The shipped model `earth` on real scenes."),
            ("earth_withheld", "The shipped model on mixtures of spectra it never saw."),
            ("earth_without_santa_barbara", "The shipped model without one of its libraries."),
            ("few_labels", "A few polygons, with and without the shipped model as prior."),
        ),
    ),
    (
        "Methane",
        (
            ("methane_scenes", "Scenes with the gas of another table."),
            ("methane_detection", "How weak a plume may be."),
            ("methane_coast", "Land beside the sea."),
            ("methane_protocol", "Pixels of known enhancement, strong and weak plumes."),
            ("methane_protocol_absorption", "The same with an absorption table that is wrong."),
            ("methane_ablation", "What parts of the background model contribute."),
            ("methane_plumes", "Whole scenes with plumes of known mass, and without any."),
            ("methane_columns", "Sensors whose wavelengths differ between detector columns."),
            ("methane_seeds", "How much the starting point matters."),
        ),
    ),
    (
        "Speed and memory",
        (
            ("classify_speed", "Mapping a million pixels with 230 bands."),
            ("earth_speed", "The same with the shipped model `earth`."),
            ("solver_speed", "The posterior alone, for many classes."),
            ("methane_speed", "A PRISMA scene, learning included."),
            ("pipeline_io", "Reading and writing alone."),
            ("archive", "Rates per core, many scenes, and a Dask cluster."),
            ("large_scene", "A scene of 10 GB."),
            ("container_steps", "The steps of the Dockerfile, run in a plain shell."),
        ),
    ),
    (
        "Faults and damaged files",
        (
            ("reproductions", "What was found wrong with files, before and after."),
            ("hostile", "Files, folders and names made to do harm."),
            ("faults", "Kills, signals, full disks, lost workers."),
            ("fuzz", "Damaged and hostile files."),
        ),
    ),
    (
        "Tests",
        (("mutants", "One-line mistakes, and whether the tests notice them."),),
    ),
    (
        "Assessment of maps",
        (("assess_coverage", "How often the 95 % intervals of `p3vae assess` hold the truth."),),
    ),
    (
        "The published tables; rows of ours are by an earlier model, whose successor follows below",
        (
            ("reproduce/simulated", "Classification of simulated scenes."),
            ("reproduce/real", "Classification of Toulouse."),
            ("reproduce/ablation", "What each part contributes."),
            ("reproduce/disentanglement", "Whether latent variables mean one thing each."),
            ("reproduce/methane", "Methane pixels."),
            ("reproduce/pendulum", "A damped pendulum, beyond the time observed."),
        ),
    ),
    (
        "Our rows of the published tables, by the present model",
        (
            ("reproduce_ours/simulated", "Classification of simulated scenes."),
            ("reproduce_ours/real", "Classification of Toulouse."),
            ("reproduce_ours/ablation", "What physics contributes."),
            ("reproduce_ours/disentanglement", "Whether latent variables mean one thing each."),
        ),
    ),
)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """All tables; a result that no section names is an error."""
    named = {name for _, tables in SECTIONS for name, _ in tables}
    found = {path.relative_to(RESULTS).with_suffix("").as_posix() for path in RESULTS.rglob("*.md")}
    if others := found - named:
        raise SystemExit(f"no section names {', '.join(sorted(others))}")
    parts = [INTRODUCTION]
    for heading, tables in SECTIONS:
        parts.append(f"## {heading}\n")
        parts += [f"### {line}\n\n{_content(RESULTS / f'{name}.md')}" for name, line in tables]
    return "\n".join(parts)


def _content(path: Path) -> str:
    """A result without its own heading."""
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    return "\n".join(line for line in lines if not line.startswith("# ")).strip() + "\n"


if __name__ == "__main__":
    main()
