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
shares go from 0 to 1. *Posterior* is the class by the full model, *classifier* by a network beside it. z is
the direct light of a pixel, δ·cosΘ. `make measured` writes this page from the results.
"""

SECTIONS = (
    (
        "Land cover",
        (
            ("landcover", "Real scenes with few labels, on ground apart from them."),
            ("landcover_more", "Toulouse, tree crowns and simulated scenes, as they are and relit."),
            ("landcover_baselines", "What LDA, logistic regression, SVM and random forest reach."),
            ("towns", "Trained under one sun, applied under another, with mixed pixels."),
            ("earth", "The shipped model on scenes that it never saw."),
            ("earth_library", "Its cover fractions, on mixed library spectra."),
            ("unknown", "How much of a class that was not learned is flagged as unknown."),
            ("ablation", "What each mechanism is worth."),
        ),
    ),
    (
        "Methane",
        (
            ("methane_protocol", "Pixels of known enhancement, strong and weak plumes."),
            ("methane_protocol_absorption", "The same with an absorption table that is wrong."),
            ("methane_plumes", "Whole scenes with plumes of known mass, and without any."),
            ("methane_scenes", "PRISMA-like scenes by an independent simulator of the gas."),
            ("methane_columns", "Sensors whose wavelengths differ between detector columns."),
            ("methane_seeds", "How much the starting point matters."),
            ("methane_ablation", "What each mechanism is worth."),
        ),
    ),
    (
        "Speed and memory",
        (
            ("classify_speed", "Mapping a million pixels with 230 bands."),
            ("solver_speed", "The posterior alone."),
            ("methane_speed", "A PRISMA scene, learning included."),
            ("pipeline_io", "Reading and writing alone."),
            ("archive_throughput", "Several scenes in a call."),
        ),
    ),
    ("Damaged files", (("fuzz", "What the program does with them."),)),
    (
        "Assessment of maps",
        (("assess_coverage", "How often the 95 % intervals of `p3vae assess` hold the truth."),),
    ),
    (
        "The published tables",
        (
            ("reproduce/simulated", "Classification of simulated scenes."),
            ("reproduce/real", "Classification of Toulouse."),
            ("reproduce/ablation", "What each part contributes."),
            ("reproduce/disentanglement", "Whether latent variables mean one thing each."),
            ("reproduce/methane", "Methane pixels."),
            ("reproduce/pendulum", "A damped pendulum, beyond the time observed."),
            ("pendulum", "The same pendulum, more seeds."),
        ),
    ),
)


def main() -> None:
    parts = [INTRODUCTION]
    named = {name for _, tables in SECTIONS for name, _ in tables}
    others = sorted(path.stem for path in RESULTS.glob("*.md") if path.stem not in named)
    for heading, tables in (*SECTIONS, ("More", tuple((name, name.replace("_", " ")) for name in others))):
        found = [(RESULTS / f"{name}.md", line) for name, line in tables]
        parts.append(f"## {heading}\n")
        parts += [f"### {line}\n\n{_content(path)}" for path, line in found if path.is_file()]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def _content(path: Path) -> str:
    """A result without its own heading."""
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    return "\n".join(line for line in lines if not line.startswith("# ")).strip() + "\n"


if __name__ == "__main__":
    main()
