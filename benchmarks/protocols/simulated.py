"""Simulated land-cover protocol: seedable partly-labelled scene + broad test sets.

numpy only.  Reads DATA/simulated/simulated.npz: ten material reflectances (300 bands),
direct/diffuse horizontal irradiances and the two label masks (train/val).

Signal model (sun zenith T0 = 30 deg, horizontal irradiances Idir, Idif):
    x = (z * Idir / cos T0 + w * Idif) / (Idir + Idif) * rho,
    z = delta * cos(Theta)   (local direct irradiance),
    w = Omega * p            (local diffuse irradiance),
    rho = a * rho_i + (1-a) * rho_j   (two sub-materials of the class).

API
    d = load_material(data)                  spectra, irradiance, good-band mask
    s = make_scene(d, seed=0)                dict: x (H,W,B) f32, train_gt, val_gt, factors
    t = make_test_random(d, n=10000, seed=1) dict: x, y, z, w, delta, cos, omega, p, alpha, eta
    g = make_test_grid(d)                    noise-free regular grid of (z, w, alpha, eta)
CLI  python -m protocols.simulated OUT_DIR --data DIR [--seed 0]   writes npz files
"""

import argparse
from pathlib import Path

import numpy as np

from protocols import add_data_option

CLASSES = ["vegetation", "sheet_metal", "loam", "tile", "asphalt"]
SUB = [
    ["grass", "dry_grass", "tree"],
    ["alu"],
    ["loam_1", "loam_2"],
    ["tile_1", "tile_2", "tile_3"],
    ["asphalt"],
]
BAD = [(45, 49), (66, 82), (98, 109), (131, 162), (201, 242), (289, 300)]
ZENITH, SUN_AZ = np.deg2rad(30.0), np.deg2rad(180.0)
NOISE = {"rho_white": 0.004, "rho_gain": 0.02, "sensor": 0.001}


def load_material(data: Path) -> dict:
    f = np.load(data / "simulated" / "simulated.npz")
    good = np.ones(300, bool)
    for a, b in BAD:
        good[a:b] = False
    rho = [np.stack([f["reflectance_" + n][good] for n in names]).astype(np.float64) for names in SUB]
    return {
        "rho": rho,
        "e_dir": f["irradiance_direct"][good].astype(np.float64),
        "e_dif": f["irradiance_diffuse"][good].astype(np.float64),
        "wv": f["wavelength_um"][good].astype(np.float64),
        "good": good,
        "cos0": np.cos(ZENITH),
        "train_gt": f["train_mask"].astype(int),
        "val_gt": f["val_mask"].astype(int),
    }


def shade(d, z, w):
    """Apparent/true reflectance ratio for z = delta*cos(Theta), w = Omega*p (arrays (N,))."""
    tot = d["e_dir"] + d["e_dif"]
    return np.outer(z, d["e_dir"] / d["cos0"] / tot) + np.outer(w, d["e_dif"] / tot)


def cos_incidence(slope, aspect):
    return np.cos(ZENITH) * np.cos(slope) + np.sin(ZENITH) * np.sin(slope) * np.cos(SUN_AZ - aspect)


def _noisy(d, rho, z, w, rng, noise):
    n, b = rho.shape
    r = rho * (1 + noise["rho_gain"] * rng.standard_normal((n, 1))) + noise[
        "rho_white"
    ] * rng.standard_normal((n, b))
    x = shade(d, z, w) * r + noise["sensor"] * rng.standard_normal((n, b))
    return np.clip(x, 1e-4, None).astype(np.float32)


def _smooth_field(shape, scale, rng):
    f = rng.standard_normal(shape)
    ky, kx = np.fft.fftfreq(shape[0])[:, None], np.fft.fftfreq(shape[1])[None]
    f = np.fft.ifft2(np.fft.fft2(f) * np.exp(-2 * (np.pi * scale) ** 2 * (ky**2 + kx**2))).real
    return (f - f.mean()) / f.std()


def _regions(mask):
    """4-connected components, numbered from 1 in raster order."""
    lab = np.zeros(mask.shape, int)
    k = 0
    for i, j in zip(*np.nonzero(mask), strict=False):
        if lab[i, j]:
            continue
        k += 1
        stack = [(i, j)]
        lab[i, j] = k
        while stack:
            a, b = stack.pop()
            for p, q in ((a - 1, b), (a + 1, b), (a, b - 1), (a, b + 1)):
                if 0 <= p < mask.shape[0] and 0 <= q < mask.shape[1] and mask[p, q] and not lab[p, q]:
                    lab[p, q] = k
                    stack.append((p, q))
    return lab, k


def make_scene(d: dict, seed: int = 0, noise=NOISE):
    rng = np.random.default_rng(seed)
    tr, va = d["train_gt"], d["val_gt"]
    gt = np.where(tr > 0, tr, va)
    H, W = gt.shape
    sub = np.zeros((H, W), int)
    slope, aspect = np.zeros((H, W)), np.full((H, W), SUN_AZ)
    delta, omega, p = np.ones((H, W)), np.ones((H, W)), np.ones((H, W))
    rows = np.arange(H)[:, None] + np.zeros((1, W), int)
    cols = np.arange(W)[None] + np.zeros((H, 1), int)

    # vegetation: upper lawn = grass, lower lawn = dry grass; trees only where unlabelled
    lab, k = _regions(gt == 1)
    for r in range(1, k + 1):
        sub[lab == r] = 0 if rows[lab == r].mean() < H / 2 else 1
    trees = (_smooth_field((H, W), 1.8, rng) > 1.1) & (gt == 1) & (tr == 0)
    sub[trees] = 2
    # loam: two soils side by side, both partly labelled
    sub[(gt == 3) & (cols >= W // 2)] = 1
    # roofs: two pitched sides (ridge east-west), one tile type and slope per roof
    roofs, k = _regions(gt == 4)
    kinds, pitch = [1, 0, 2, 1, 0], np.deg2rad([30.0, 20.0, 40.0, 25.0, 35.0])
    order = sorted(range(1, k + 1), key=lambda r: (-(tr[roofs == r] > 0).mean(), r))
    for i, r in enumerate(order):  # most labelled roof first: tile_2, then tile_1, tile_3 ...
        m = roofs == r
        sub[m] = kinds[i % 5]
        slope[m] = pitch[i % 5]
        north = m & (rows < rows[m].mean())
        aspect[m], aspect[north] = SUN_AZ, SUN_AZ + np.pi
    sm = gt == 2  # sheet-metal roof: weak single pitch
    slope[sm] = np.deg2rad(8.0)

    cosT = np.clip(cos_incidence(slope, aspect), 0, None)
    # shadows: only ground pixels that are NOT in the labelled set
    ground = np.isin(gt, (1, 3, 5))
    target = {1: 0.30, 3: 0.5, 5: 0.6}
    field = _smooth_field((H, W), 2.5, rng)
    for c, frac in target.items():
        m = (gt == c) & (tr == 0)
        t = np.quantile(field[m], frac)
        delta[m] = np.clip((field[m] - t) / 0.35 + 0.5, 0, 1)
    # sky-view factor: roofs by slope, ground by distance to the nearest roof
    ri, rj = np.nonzero(np.isin(gt, (2, 4)))
    gi, gj = np.nonzero(ground)
    dist = np.sqrt(((gi[:, None] - ri[None]) ** 2 + (gj[:, None] - rj[None]) ** 2).min(1))
    omega[gi, gj] = 1 - 0.45 * np.exp(-dist / 3.0)
    omega[~ground] = (1 + np.cos(slope[~ground])) / 2
    omega = np.clip(omega + 0.02 * rng.standard_normal((H, W)), 0.2, 1)
    # anisotropy of the diffuse part: brighter when facing the sun, lower in shadow
    p = 1 + 0.15 * (cosT - d["cos0"]) - 0.25 * (1 - delta)

    z, w = delta * cosT, omega * p
    rho = np.empty((H, W, len(d["e_dir"])))
    for c in range(1, 6):
        m = gt == c
        rho[m] = d["rho"][c - 1][sub[m]]
    x = _noisy(d, rho.reshape(H * W, -1), z.ravel(), w.ravel(), rng, noise).reshape(H, W, -1)
    return {
        "x": x,
        "train_gt": tr,
        "val_gt": va,
        "gt": gt,
        "sub": sub,
        "delta": delta,
        "cos": cosT,
        "omega": omega,
        "p": p,
        "z": z,
        "w": w,
    }


def make_test_random(d: dict, n: int = 10000, seed: int = 1, noise=NOISE):
    rng = np.random.default_rng(seed)
    out = {k: [] for k in ("x", "y", "z", "w", "delta", "cos", "omega", "p", "alpha", "eta")}
    for c, R in enumerate(d["rho"]):
        u = rng.random(n)
        delta = np.where(u < 0.15, 0.0, np.where(u < 0.5, rng.random(n), 1.0))
        cosT = np.clip(cos_incidence(np.deg2rad(rng.uniform(0, 60, n)), rng.uniform(0, 2 * np.pi, n)), 0, 1)
        omega, p = rng.uniform(0.25, 1.0, n), rng.uniform(0.8, 1.1, n)
        k = len(R)
        eta = rng.integers(0, k, n)  # pair (eta, eta+1 mod k)
        alpha = rng.random(n) if k > 1 else np.ones(n)
        rho = alpha[:, None] * R[eta] + (1 - alpha)[:, None] * R[(eta + 1) % k]
        z, w = delta * cosT, omega * p
        for key, v in zip(
            out,
            (_noisy(d, rho, z, w, rng, noise), np.full(n, c), z, w, delta, cosT, omega, p, alpha, eta),
            strict=False,
        ):
            out[key].append(v)
    return {k: np.concatenate(v) for k, v in out.items()}


def make_test_grid(d: dict, n: int = 10000) -> dict:
    """Noise-free regular grid: z in [0,1], w in [0.2,1] (10), alpha in [0,1] (10), cyclic pairs."""
    out = {k: [] for k in ("x", "y", "z", "w", "alpha", "eta")}
    for c, R in enumerate(d["rho"]):
        k = len(R)
        al = np.linspace(0, 1, 10) if k > 1 else np.ones(1)
        zs = np.linspace(0, 1, int(np.ceil(n / (10 * k * len(al)))))
        e, a, z, w = [
            v.ravel() for v in np.meshgrid(np.arange(k), al, zs, np.linspace(0.2, 1, 10), indexing="ij")
        ]
        rho = (1 - a)[:, None] * R[e] + a[:, None] * R[(e + 1) % k]
        for key, v in zip(
            out, ((shade(d, z, w) * rho).astype(np.float32), np.full(len(z), c), z, w, a, e), strict=False
        ):
            out[key].append(v)
    return {k: np.concatenate(v) for k, v in out.items()}


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    add_data_option(ap)
    ap.add_argument("out", type=Path)
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    d = load_material(a.data)
    s = make_scene(d, a.seed)
    np.savez(a.out / "scene.npz", **s)
    np.savez(a.out / "test_random.npz", **make_test_random(d, seed=a.seed + 1))
    np.savez(a.out / "test_grid.npz", **make_test_grid(d))
    for c in range(1, 6):
        for nm, g in (("train", s["train_gt"]), ("val", s["val_gt"])):
            m = g == c
            if m.any():
                print(
                    CLASSES[c - 1],
                    nm,
                    m.sum(),
                    "sub",
                    np.bincount(s["sub"][m], minlength=3),
                    "z {:.2f}-{:.2f}".format(s["z"][m].min(), s["z"][m].max()),
                    "frac delta<.5 {:.2f}".format((s["delta"][m] < 0.5).mean()),
                    "w {:.2f}-{:.2f}".format(s["w"][m].min(), s["w"][m].max()),
                    "mean x {:.3f}".format(s["x"][m].mean()),
                )
