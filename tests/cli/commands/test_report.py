"""`p3vae report`: a page that is complete in itself, looked at with a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import rasterio

from tests.cli.calls import refusal, run

SAMPLES = Path("sample_data")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PROBE = r"""<script>
const viewer = document.querySelector(".viewer"), found = {};
const shown = () => [...viewer.querySelectorAll("img.over")].filter(i => !i.hidden).map(i => i.dataset.layer);
found.first = shown();
const choice = viewer.querySelectorAll("input[type=radio]")[1];
choice.click();
found.second = shown();
const slider = viewer.querySelector("input[type=range]");
slider.value = 20;
slider.dispatchEvent(new Event("input", {bubbles: true}));
found.opacity = viewer.querySelector("img.over:not([hidden])").style.opacity;
found.broken = [...document.images].filter(i => !i.naturalWidth).length;
found.overflow = document.documentElement.scrollWidth - window.innerWidth;
found.width = window.innerWidth;
const shade = text => { // relative luminance of a colour, as WCAG 2.1 defines it
  const part = text.match(/[\d.]+/g).slice(0, 3).map(v => v / 255);
  const linear = part.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
const ground = shade(getComputedStyle(document.body).backgroundColor);
found.ground = ground;
found.contrast = Math.min(...["p", ".soft", "summary", "th"].map(
  name => contrast(ground, shade(getComputedStyle(document.querySelector(name)).color))));
found.requests = performance.getEntriesByType("resource").filter(r => !r.name.startsWith("data:")).length;
parent.postMessage(JSON.stringify(found), "*");
</script>"""
FRAME = """<!doctype html><meta charset="utf-8">
<iframe src="probed.html" width="{width}" height="900"></iframe>
<script>onmessage = e => document.body.dataset.found = e.data</script>"""


def looked_at(page: Path, folder: Path, width: int, dark: bool) -> tuple[dict, str]:
    """What a probe inside the page sees in a frame of that width, and what the browser logs."""
    text = page.read_text(encoding="utf-8")
    (folder / "probed.html").write_text(text.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *(f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=4000"),
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            *("--dump-dom", (folder / "frame.html").as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "HOME": str(folder)},
    )
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found, done.stdout[-500:]
    return json.loads(found[1].replace("&quot;", '"')), done.stderr


@pytest.fixture(scope="module")
def page(mapped_town, tmp_path_factory):
    made = tmp_path_factory.mktemp("page") / "report.html"
    reference = ("--reference", mapped_town / "town_labels.gpkg")
    done = run("report", mapped_town / "maps", "-m", mapped_town / "town.p3vae", *reference, "-o", made)
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(made)
    return made


def test_the_page_is_complete_and_small(page) -> None:
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 2_000_000
    for words in ("Land cover", "Direct sunlight", "Confidence", "vegetation", "unknown", "Opacity"):
        assert words in text
    assert "Spectra of the classes" in text and "Assessment by town_labels.gpkg" in text
    assert "Reliability" in text and "Model card" in text and "Settings of" in text
    outside = re.sub(r"http://www\.w3\.org/2000/svg", "", text)
    assert not re.search(r"""(src|href)=(?!["'](data:|#))|https?://|url\(|@import""", outside)


def test_the_page_says_how_much_of_the_scene_is_unlike_anything_learned(page, mapped_town) -> None:
    with rasterio.open(mapped_town / "maps" / "town_landcover.tif") as source:
        classes = source.read(1)
    share = (classes == 255).sum() / (classes > 0).sum()
    said = re.search(r"<p>([\d.]+) % of the pixels are unlike anything", page.read_text(encoding="utf-8"))
    assert float(said[1]) == pytest.approx(100 * share, abs=0.06)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1200, False)])
def test_controls_work_and_nothing_is_requested(page, tmp_path, width, dark) -> None:
    found, logged = looked_at(page, tmp_path, width, dark)
    assert found["contrast"] >= 4.5 and (found["ground"] < 0.1) == dark, "readable, light and dark"
    assert found["width"] == width
    assert found["first"] == ["landcover"] and found["second"] == ["confidence"]
    assert found["opacity"] == "0.2"
    assert found["broken"] == 0 and found["overflow"] <= 0
    assert "CONSOLE" not in logged
    assert found["requests"] == 0


@pytest.fixture(scope="module")
def gas(tmp_path_factory) -> Path:
    """The page that a run of invert-methane adds to its maps."""
    folder = tmp_path_factory.mktemp("gas")
    scene = next(SAMPLES.glob("PRS_L1*.he5"))
    assert run("invert-methane", scene, "-o", folder, "--wind", 4, "--report").exit_code == 0
    return folder / "report.html"


def test_methane_has_its_plumes(gas, tmp_path) -> None:
    shutil.copytree(gas.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "report.html").unlink()
    assert run("report", tmp_path).exit_code == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Plume 1" in text and re.search(r"mass [\d,]+ ± [\d,]+ kg", text) and "kg/h" in text
    assert "exists already" in refusal(1, "report", tmp_path)


def test_a_folder_with_foreign_and_missing_files(mapped_town, tmp_path) -> None:
    folder = tmp_path / "maps"
    shutil.copytree(mapped_town / "maps", folder)
    (folder / "town_confidence.tif").unlink()
    (folder / "other_p3vae.json").write_text('{"not": "ours"}')
    (folder / "notes.txt").write_text("hello")
    manifest = folder / "town_p3vae.json"
    record = json.loads(manifest.read_text())
    record["scene"]["path"] = str(tmp_path / "<b>gone.tif")
    manifest.write_text(json.dumps(record))
    assert run("report", folder).exit_code == 0
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "Listed, but gone: town_confidence.tif" in text and "cannot be opened" in text
    assert "<b>gone" not in text and "&lt;b&gt;gone" in text


def test_several_scenes_on_one_page(mapped_town, tmp_path) -> None:
    shutil.copy(mapped_town / "town.tif", tmp_path / "a.tif")
    shutil.copy(mapped_town / "town.tif", tmp_path / "b.tif")
    assert run("brightness", tmp_path / "a.tif", tmp_path / "b.tif", "-o", tmp_path / "out").exit_code == 0
    assert run("brightness", tmp_path / "b.tif", "-o", tmp_path / "out" / "june").exit_code == 0
    assert run("report", tmp_path / "out").exit_code == 0
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "3 scenes" in text and 'href="#a"' in text and 'id="b"' in text and 'id="june/b"' in text


def test_a_folder_without_products_is_refused(tmp_path) -> None:
    assert "holds no products of p3vae" in refusal(1, "report", tmp_path)
    assert "no such folder" in refusal(1, "report", tmp_path / "none")


def test_mapping_commands_add_the_page_and_the_project(mapped_town, tmp_path) -> None:
    out = tmp_path / "out"
    call = ("classify", mapped_town / "town.tif", "-m", mapped_town / "town.p3vae", "-o", out)
    done = run(*call, "--report", "--qgis")
    assert done.exit_code == 0 and done.stdout.splitlines()[-2:] == [
        str(out / "report.html"),
        str(out / "p3vae.qgz"),
    ]
    first = (out / "report.html").read_text(encoding="utf-8")
    assert "Land cover" in first and "Model card" in first
    assert run("brightness", mapped_town / "town.tif", "-o", out).exit_code == 0
    again = run(*call, "--report", "--json")
    assert again.exit_code == 0 and json.loads(again.stdout)["status"] == "skipped"
    assert "Brightness" in (out / "report.html").read_text(encoding="utf-8"), "of the whole folder"
    assert run("verify", out).exit_code == 0


def test_pages_of_others_stay_and_failures_leave_none(mapped_town, tmp_path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("<p>mine</p>")
    said = refusal(1, "brightness", mapped_town / "town.tif", "-o", out, "--report")
    assert "is no page of p3vae" in said and not list(out.glob("*.tif"))
    (tmp_path / "bad.tif").write_text("no scene")
    refusal(1, "brightness", tmp_path / "bad.tif", "-o", tmp_path / "none", "--report", "--qgis")
    assert not (tmp_path / "none").exists()
    assert run("brightness", mapped_town / "town.tif", "-o", out, "--qgis", "--dry-run").exit_code == 0
    assert not (out / "p3vae.qgz").exists()
    assert run("brightness", mapped_town / "town.tif", "-o", tmp_path / "one.tif", "--report").exit_code == 0
    assert "mean reflectance" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_scene_is_opened_as_it_was_mapped(mapped_town, tmp_path) -> None:
    """With the same scale, and the same part of it."""
    with (
        rasterio.open(mapped_town / "town.tif") as source,
        rasterio.open(tmp_path / "plain.tif", "w", **source.profile) as made,
    ):
        made.write(source.read())
        for band in source.indexes:
            made.update_tags(band, wavelength=source.tags(band)["wavelength"])
            made.set_band_description(band, source.descriptions[band - 1])
        left, top = source.transform.c, source.transform.f
    model, bbox = ("-m", mapped_town / "town.p3vae"), f"{left + 8},{top - 40},{left + 40},{top - 4}"
    sun = ("--scale", "1e-4", "--sun-zenith", 43)
    done = run("classify", tmp_path / "plain.tif", *model, "-o", tmp_path, *sun, "--bbox", bbox, "--report")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'alt="quick-look"' in text and "Spectra of the classes" in text
    assert "36 / 32" not in text and "aspect-ratio: 32 / 36" in text


def test_quantities_have_the_colours_of_their_styles(page, gas) -> None:
    text = page.read_text(encoding="utf-8")
    assert "#fcffa4ff" in text, "the brightest colour of inferno, as in QGIS"
    text = gas.read_text(encoding="utf-8")
    assert re.search(r"#[0-9a-f]{6}00 0.0%", text), "no methane, no colour"
    assert text.index('value="methane" checked') < text.index('value="plume_mask"')
