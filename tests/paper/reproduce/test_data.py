"""Data of the experiments: what the paper says of them holds, and files are read as laid out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from p3vae.paper.reproduce import plume_pixels, toulouse, townscape
from p3vae.paper.reproduce.townscape import ASPHALT, CLASSES, LOAM, METAL, TILE, VEGETATION

COS_SUN = np.cos(np.radians(30.0))


@pytest.fixture(scope="module")
def town() -> townscape.Townscape:
    return townscape.built_in()


@pytest.fixture(scope="module")
def image(town: townscape.Townscape) -> townscape.Image:
    return townscape.acquire(town, 0)


def test_labels_are_where_the_paper_has_them(town: townscape.Townscape, image: townscape.Image) -> None:
    """No labelled ground in shadow, all of the metal, tile on some slopes, part of every other class."""
    for ground in (VEGETATION, LOAM, ASPHALT):
        labelled = town.labelled & (town.class_index == ground)
        assert np.allclose(image.z[labelled], COS_SUN)
        hidden = ~town.labelled & (town.class_index == ground)
        assert (image.z[hidden] < 0.5 * COS_SUN).mean() > 0.25
    assert town.labelled[town.class_index == METAL].all()
    tiles = town.class_index == TILE
    assert len(np.unique(image.z[tiles & town.labelled])) == 3
    assert set(np.unique(image.material[tiles])) == {0, 1, 2}
    assert 2 not in image.material[tiles & town.labelled]


def test_sunlit_flat_ground_shows_its_reflectance(town: townscape.Townscape, image: townscape.Image) -> None:
    """Open flat ground has z = cosΘ0 and nearly all the sky."""
    open_ground = (town.class_index == ASPHALT) & town.labelled & (image.w > 0.97)
    assert open_ground.any()
    seen = image.cube[open_ground].mean(axis=0)
    assert np.allclose(seen, town.spectra[ASPHALT][0], rtol=0.05)


def test_polygons_never_mix_classes_and_touch_nobody(town: townscape.Townscape) -> None:
    number = townscape.polygons(town)
    assert ((number > 0) == town.labelled).all()
    for polygon in range(1, number.max() + 1):
        assert len(np.unique(town.class_index[number == polygon])) == 1


def test_another_seed_is_another_image_and_the_same_seed_is_not(town: townscape.Townscape) -> None:
    first, again, other = (townscape.acquire(town, seed).cube for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_grid_covers_all_light_evenly(town: townscape.Townscape) -> None:
    grid = townscape.grid_spectra(town, 400)
    for index in range(len(CLASSES)):
        z, w = grid.z[grid.y == index], grid.w[grid.y == index]
        assert len(z) >= 400
        assert (z.min(), z.max(), w.min(), w.max()) == pytest.approx((0.0, 1.0, 0.2, 1.0))
        assert np.corrcoef(z, w)[0, 1] == pytest.approx(0.0, abs=1e-9)
    pure = (grid.y == METAL) & (grid.w == 1.0)
    light = town.irradiance
    expected = np.outer(grid.z[pure], light.direct_ratio) + light.diffuse_ratio
    assert np.allclose(grid.x[pure], expected * town.spectra[METAL][0], rtol=1e-5)


def test_random_light_has_the_promised_shares(town: townscape.Townscape) -> None:
    drawn = townscape.random_spectra(town, 4000, seed=1)
    # 15 % lie in full shadow; slopes up to 60° never quite turn away from a sun 30° off the zenith.
    assert (drawn.z == 0).mean() == pytest.approx(0.15, abs=0.01)
    assert (drawn.w.min(), drawn.w.max()) == pytest.approx((0.2, 1.1), abs=0.01)
    assert np.isfinite(drawn.x).all() and (drawn.x > 0).all()


def simulated_file(path: Path) -> None:
    """A file with the names and shapes of the paper's data, filled with simple numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [name for group in townscape._IN_FILE for name in group]
    masks = np.repeat(np.arange(1, 6), 4)[:, None] * np.ones((1, 12), int)
    train = np.where(np.arange(12) < 6, masks, 0)
    np.savez(
        path,
        wavelength_um=np.linspace(0.4, 2.4, 40, dtype=np.float32),
        good_band=np.arange(40) % 10 > 0,
        irradiance_direct=np.full(40, 900.0),
        irradiance_diffuse=np.full(40, 100.0),
        train_mask=train.astype(np.uint8),
        val_mask=(masks - train).astype(np.uint8),
        **{f"reflectance_{name}": np.full(40, 0.1 + 0.05 * k) for k, name in enumerate(names)},
    )


def test_a_file_is_read_as_laid_out(tmp_path: Path) -> None:
    simulated_file(tmp_path / "simulated.npz")
    town = townscape.from_file(tmp_path / "simulated.npz")
    assert len(town.bands) == 36
    assert [len(spectra) for spectra in town.spectra] == [3, 1, 2, 3, 1]
    assert town.class_index.tolist() == (np.repeat(np.arange(5), 4)[:, None] * np.ones((1, 12), int)).tolist()
    assert town.labelled[:, :6].all() and not town.labelled[:, 6:].any()
    assert town.spectra[1][0, 0] == pytest.approx(0.25)


def toulouse_file(path: Path) -> None:
    """Two far polygons for each class but the last, which has one wide polygon."""
    rng = np.random.default_rng(0)
    rows, cols, label, image = [], [], [], []
    for index in range(1, 9):
        for corner in (0, 50) if index < 8 else (0,):
            size = 5 if index < 8 else 10
            r, c = np.mgrid[0:4, 0:size]
            rows.append(r.ravel() + 10 * index)
            cols.append(c.ravel() + corner)
            label.append(np.full(r.size, index))
            image.append(np.zeros(r.size))
    count = sum(map(len, label))
    tile = rng.integers(500, 3000, (6, 6, 30)).astype(np.int16)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        spectra=(1000.0 * np.concatenate(label)[:, None] + rng.integers(0, 50, (count, 30))).astype(np.int16),
        label=np.concatenate(label).astype(np.uint8),
        image=np.concatenate(image).astype(np.uint8),
        row=np.concatenate(rows),
        col=np.concatenate(cols),
        wavelength_um=np.linspace(0.4, 2.4, 33, dtype=np.float32),
        good_band=~np.isin(np.arange(33), (10, 20, 21)),
        irradiance_direct=np.full(33, 900.0),
        irradiance_diffuse=np.full(33, 100.0),
        tile_asphalt=tile,
        tile_vegetation=tile,
        tile_fibercement=tile,
    )


def test_polygons_are_split_as_wholes_and_a_lone_one_is_cut(tmp_path: Path) -> None:
    toulouse_file(tmp_path / "t.npz")
    split = toulouse.read_split(tmp_path / "t.npz", seed=0)
    for index in range(7):
        assert (split.labelled_class == index).sum() == (split.test_class == index).sum() == 20
        assert len(np.unique(split.polygon[split.labelled_class == index])) == 1
    # Ten columns cut at the median, 4.5: no pixel lies on the line itself.
    assert (split.labelled_class == 7).sum() == (split.test_class == 7).sum() == 20
    assert split.labelled[split.labelled_class == 2].mean() == pytest.approx(0.3, abs=0.01)
    assert {tuple(row) for row in split.labelled}.isdisjoint(tuple(row) for row in split.test)
    assert split.unlabelled.shape == (72, 30)


def test_polygons_become_images_that_hold_every_sample_once(tmp_path: Path) -> None:
    toulouse_file(tmp_path / "t.npz")
    split = toulouse.read_split(tmp_path / "t.npz", seed=0)
    chips = toulouse.chips(split.test, split.test_polygon, split.test_place)
    held = np.concatenate([chip.samples[chip.samples >= 0] for chip in chips])
    assert sorted(held) == list(range(len(split.test)))
    for chip in chips:
        inside = chip.samples >= 0
        assert np.array_equal(chip.cube[inside], split.test[chip.samples[inside]])
        assert np.isnan(chip.cube[~inside]).all()
        # Four rows of five pixels each stand as they stood in the scene.
        assert chip.samples.shape == (4, 5)


def test_relit_spectra_are_test_spectra_in_other_light(tmp_path: Path) -> None:
    toulouse_file(tmp_path / "t.npz")
    split = toulouse.read_split(tmp_path / "t.npz", seed=0)
    relit = toulouse.relight(split, copies=2, seed=0)
    assert len(relit.y) == 2 * len(split.test_class)
    light = split.irradiance
    low = np.outer(relit.z, light.direct_ratio) + 0.2 * light.diffuse_ratio
    high = np.outer(relit.z, light.direct_ratio) + 1.1 * light.diffuse_ratio
    ratio = relit.x / np.repeat(split.test, 2, axis=0)
    assert (ratio > low - 0.06).all() and (ratio < high + 0.06).all()


@pytest.mark.parametrize("split", ["random", "other"])
def test_plumes_take_light_only_where_methane_absorbs(split: str) -> None:
    ground = plume_pixels.simulated_ground(size=24)
    setting = plume_pixels.Setting(split, "high", 1.0)
    pixels = plume_pixels.make_pixels(ground, setting, seed=0)
    assert pixels.ppm_m.min() >= 2e4 and pixels.ppm_m.max() <= 1e5
    known = 3 * 576 if split == "random" else 2 * 576
    assert len(pixels.plume_free) == round(0.15 * known)
    assert len(pixels.test) == (round(0.4 * known) if split == "random" else 576)
    piece = ground.pieces[-1][:50]
    dimmed = ground.render(piece, np.full(50, 500.0), 1.0) / piece
    wavelength = ground.bands.wavelength_nm
    assert np.allclose(dimmed[:, wavelength < 1400], 1.0)
    # 7.4e-6 per ppm m one way is the literature's value at 2350 nm; the sun at 30° makes the way 2.155 long.
    depth = -np.log(dimmed[:, np.argmin(np.abs(wavelength - 2350))].mean())
    assert depth / (500.0 * 2.155) == pytest.approx(7.4e-6, rel=0.15)
