"""Real (Toulouse, 310 good bands) protocol: spatial split of the labelled polygons + unlabelled tiles.

numpy only.  r = make_split(data, seed=0): dict with
  x_lab,y_lab / x_test,y_test  reflectance float32 (N,310), labels 0..7
  x_unl                        n_unl pixels of the asph + veg tiles, smoothed like the labelled spectra
  aside                        the held-aside (75,75,310) tile, smoothed
  e_dir,e_dif,theta,segments   irradiance on the good bands, sun zenith (rad), lengths of contiguous band runs
Split unit: connected component (pixels closer than `gap`) within class and image; a class with a single
component is cut in two at the median of its longest side (the cut line is dropped, the seed picks the half).
"""

import argparse
from pathlib import Path

import numpy as np

from protocols import add_data_option

CLASSES = ["tile", "asphalt", "vegetation", "painted_metal", "water", "gravels", "metal", "fiber_cement"]


def segments(good):
    idx = np.flatnonzero(good)
    return np.diff(np.concatenate([[0], np.flatnonzero(np.diff(idx) > 1) + 1, [len(idx)]]))


def smooth(x, segs, sigma=1.5):
    r = int(4 * sigma + 0.5)
    k = np.exp(-0.5 * (np.arange(-r, r + 1) / sigma) ** 2)
    k /= k.sum()
    out, s = np.empty_like(x, dtype=np.float32), 0
    for n in segs:
        p = np.pad(x[:, s : s + n].astype(np.float32), ((0, 0), (r, r)), mode="symmetric")
        out[:, s : s + n] = sum(k[j] * p[:, j : j + n] for j in range(2 * r + 1))
        s += n
    return out


def components(rc, gap=3):
    lab = -np.ones(len(rc), int)
    k = 0
    for i in range(len(rc)):
        if lab[i] >= 0:
            continue
        lab[i] = k
        stack = [i]
        while stack:
            j = stack.pop()
            near = np.flatnonzero((lab < 0) & (np.abs(rc - rc[j]).max(1) <= gap))
            lab[near] = k
            stack.extend(near)
        k += 1
    return lab


def make_split(
    folder: Path,
    seed: int = 0,
    n_unl: int = 4000,
    tiles=("tile_asphalt", "tile_vegetation"),
    aside="tile_fibercement",
):
    rng = np.random.default_rng(seed)
    data = np.load(folder / "toulouse" / "toulouse.npz")
    good = data["good_band"].astype(bool)
    segs = segments(good)
    spectra, label, image = data["spectra"], data["label"], data["image"]
    position = np.stack([data["row"], data["col"]], 1)
    parts = {k: [] for k in ("x_lab", "y_lab", "x_test", "y_test")}
    info = []
    for c in range(1, 9):
        units = []
        for im in np.unique(image[label == c]):
            m = (label == c) & (image == im)
            x, rc = spectra[m], position[m]
            comp = components(rc)
            units += [(x[comp == k], rc[comp == k]) for k in range(comp.max() + 1)]
        if len(units) < 2:
            x, rc = units[0]
            ax = np.ptp(rc, axis=0).argmax()
            cut = np.median(rc[:, ax])
            units = [
                (x[m], rc[m]) for m in (rc[:, ax] < cut, rc[:, ax] > cut)
            ]  # the cut line itself is dropped
        order = rng.permutation(len(units))
        tot, acc, to_lab = sum(len(u[0]) for u in units), 0, []
        for j in order:  # fill the labelled half by pixels, at least one unit each side
            if acc < 0.45 * tot and len(to_lab) < len(units) - 1:
                to_lab.append(j)
                acc += len(units[j][0])
        for j, (x, _) in enumerate(units):
            s = "lab" if j in to_lab else "test"
            parts["x_" + s].append(x)
            parts["y_" + s].append(np.full(len(x), c - 1))
        info.append((CLASSES[c - 1], len(units), acc, tot - acc))
    out = {k: np.concatenate(v) for k, v in parts.items()}
    for k in ("x_lab", "x_test"):
        out[k] = (out[k] / 1e4).astype(np.float32)
    u = np.concatenate([data[t].reshape(-1, 310) for t in tiles])
    u = u[u.max(1) > 0]
    u = u[rng.permutation(len(u))[:n_unl]]
    out["x_unl"] = smooth(u, segs) / np.float32(1e4)
    f = data[aside]
    out["aside"] = (smooth(f.reshape(-1, 310), segs) / np.float32(1e4)).reshape(f.shape)
    out.update(
        e_dir=data["irradiance_direct"][good],
        e_dif=data["irradiance_diffuse"][good],
        wv=data["wavelength_um"][good],
        good=good,
        theta=np.deg2rad(22.12),
        segments=segs,
        info=info,
    )
    return out


def relight(r, x, y, copies=3, seed=0, noise=0.001):
    """Semi-real test: real spectra (taken as flat, sunlit) re-illuminated with random (z, w).
    x' = x * (z*a + w*b) / (cos0*a + b), a = e_dir/cos0/tot, b = e_dif/tot.  Returns x', y', z, w."""
    rng = np.random.default_rng(seed)
    tot, c0 = r["e_dir"] + r["e_dif"], np.cos(r["theta"])
    a, b = r["e_dir"] / c0 / tot, r["e_dif"] / tot
    x, y = np.repeat(x, copies, 0), np.repeat(y, copies)
    n = len(x)
    u = rng.random(n)
    delta = np.where(u < 0.15, 0.0, np.where(u < 0.5, rng.random(n), 1.0))
    s, az = np.deg2rad(rng.uniform(0, 50, n)), rng.uniform(0, 2 * np.pi, n)
    z = delta * np.clip(c0 * np.cos(s) + np.sin(r["theta"]) * np.sin(s) * np.cos(az), 0, 1)
    w = rng.uniform(0.25, 1, n) * rng.uniform(0.8, 1.1, n)
    out = x * (z[:, None] * a + w[:, None] * b) + noise * rng.standard_normal(x.shape)
    return np.clip(out, 1e-4, None).astype(np.float32), y, z, w


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_data_option(parser)
    asked = parser.parse_args()
    for s in range(2):
        r = make_split(asked.data, seed=s)
        print(s, r["info"], len(r["x_lab"]), len(r["x_test"]), r["x_unl"].shape, r["segments"])
