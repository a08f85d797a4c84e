"""Collects the tables of `results/` on pages with a line of explanation each.

    python -m benchmarks collect        # or: make measured

Writes `docs/measured.md`, the list of pages, and the pages in `docs/measured/`.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"

INTRODUCTION = """# What was measured

Every table has its command above it and its raw numbers as JSON in `benchmarks/results/`. Accuracy, F1 and
shares go from 0 to 1. *Posterior* is the class by the full model, *classifier* by q(y|x) alone. z is
the direct light of a pixel, δ·cosΘ. `make measured` writes these pages from the results.
"""

SECTIONS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "land_cover",
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
            ("earth_training", "How long its encoder learns, on libraries and scenes it never saw."),
            ("earth_without_santa_barbara", "The shipped model without one of its libraries."),
            ("terrain", "Elevations as an observation of light, on simulated mountains."),
            ("few_labels", "A few polygons, with and without the shipped model as prior."),
        ),
    ),
    (
        "methane",
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
        "speed",
        "Speed and memory",
        (
            ("classify_speed", "Mapping a million pixels with 230 bands."),
            ("earth_speed", "The same with the shipped model `earth`."),
            ("solver_speed", "The posterior alone, for many classes."),
            ("methane_speed", "A PRISMA scene, learning included."),
            ("terrain_cost", "A large scene with and without elevations."),
            ("pipeline_io", "Reading and writing alone."),
            ("archive", "Rates per core, many scenes, and a Dask cluster."),
            ("large_scene", "A scene of 10 GB."),
            ("container_steps", "The steps of the Dockerfile, run in a plain shell."),
        ),
    ),
    (
        "faults",
        "Faults and damaged files",
        (
            ("reproductions", "What was found wrong with files, before and after."),
            ("hostile", "Files, folders and names made to do harm."),
            ("faults", "Kills, signals, full disks, lost workers."),
            ("fuzz", "Damaged and hostile files."),
        ),
    ),
    (
        "tests",
        "Tests",
        (("mutants", "One-line mistakes, and whether the tests notice them."),),
    ),
    (
        "assessment",
        "Assessment of maps",
        (("assess_coverage", "How often the 95 % intervals of `p3vae assess` hold the truth."),),
    ),
    (
        "published",
        "The published tables; rows of ours are by an earlier model, whose successor has a page of its own",
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
        "published_ours",
        "Our rows of the published tables, by the present model",
        (
            ("reproduce_ours/simulated", "Classification of simulated scenes."),
            ("reproduce_ours/real", "Classification of Toulouse."),
            ("reproduce_ours/ablation", "What physics contributes."),
            ("reproduce_ours/disentanglement", "Whether latent variables mean one thing each."),
        ),
    ),
)
"""Pages: name, heading, and its tables with a line on each."""


def main() -> None:
    """Write the pages, and remove those of former sections."""
    made = pages()
    for old in (DOCS / "measured").glob("*.md"):
        if old not in made:
            old.unlink()
    for path, text in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def pages() -> dict[Path, str]:
    """The text of every page by its path; a result that no section names is an error."""
    named = {name for _, _, tables in SECTIONS for name, _ in tables}
    found = {path.relative_to(RESULTS).with_suffix("").as_posix() for path in RESULTS.rglob("*.md")}
    if others := found - named:
        raise SystemExit(f"no section names {', '.join(sorted(others))}")
    made, contents = {}, [INTRODUCTION]
    for page, heading, tables in SECTIONS:
        parts = [f"# {heading}\n", "[All pages](../measured.md)\n"]
        parts += [f"## {line}\n\n{_content(RESULTS / f'{name}.md')}" for name, line in tables]
        made[DOCS / "measured" / f"{page}.md"] = "\n".join(parts)
        contents += [f"**[{heading}](measured/{page}.md)**\n", *(f"- {line}" for _, line in tables), ""]
    return {DOCS / "measured.md": "\n".join(contents), **made}


def _content(path: Path) -> str:
    """A result without its own heading; smaller headings fit under that of the page."""
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    kept = [f"#{line}" if line.startswith("## ") else line for line in lines if not line.startswith("# ")]
    return "\n".join(kept).strip() + "\n"


if __name__ == "__main__":
    main()
