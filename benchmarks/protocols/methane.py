"""Semi-real PRISMA-like methane inversion protocol (numpy only, seedable).

Real airborne reflectance (Toulouse tiles) -> PRISMA-like radiance -> plume -> sensor noise.

    ds = make_dataset(data, split="random"|"fib", conc="high"|"low", seed=0)

split  random : the three tiles are pooled and split at random
       fib    : asph+veg tiles give no-plume + training-plume pixels, the fib tile is the test set
conc   high   : 2e4..1e5 ppm.m (published range), low : 0..5e3 ppm.m
abs_scale     : multiplies the tabulated absorption (1 = table as shipped; 0.1 = near physical strength)
truth  "fine" : exp(-rho k(lambda) m) on a 1 nm grid, then averaged with the sensor response
       "band" : Beer-Lambert with the band-averaged absorption (no forward-model error)
"""

import csv
from pathlib import Path

import numpy as np

THETA = np.deg2rad(30.0)
AIRMASS = 1.0 + 1.0 / np.cos(THETA)
RANGES = {"high": (2e4, 1e5), "low": (0.0, 5e3)}
# windows (nm) in which the airborne reflectance is measured, not interpolated
WINDOWS = [(433, 927), (976, 1102), (1147, 1322), (1481, 1761), (1955, 2397)]
CH4_START = 1590.0  # bands above this form the methane block


def _csv(path: Path):
    with path.open(newline="") as f:
        rows = [(float(r[0].replace(",", ".")), float(r[1].replace(",", "."))) for r in csv.reader(f)]
    a = np.array(rows)
    return a[:, 0], a[:, 1]


class Sensor:
    def __init__(self, data: Path, abs_scale: float = 1.0):
        c = data / "methane"
        sim = np.load(data / "simulated" / "simulated.npz")
        p = np.genfromtxt(c / "prisma_fwhm.csv", delimiter=",", skip_header=1)
        keep = np.zeros(len(p), bool)
        for a, b in WINDOWS:
            keep |= (p[:, 0] >= a) & (p[:, 0] <= b)
        first_swir = np.where(np.diff(p[:, 0]) < 0)[0][0] + 1
        dup = (np.arange(len(p)) >= first_swir) & (p[:, 0] < p[first_swir - 1, 0])  # SWIR/VNIR overlap
        p = p[keep & ~dup]
        self.wl, self.fwhm = p[:, 0], p[:, 1]
        self.grid = np.arange(400.0, 2501.0)  # 1 nm
        s = np.exp(-0.5 * ((self.grid - self.wl[:, None]) / (self.fwhm[:, None] / 2.3548)) ** 2)
        self.srf = s / s.sum(1, keepdims=True)
        wv = sim["wavelength_um"] * 1e3
        e = sim["irradiance_direct"] + sim["irradiance_diffuse"]
        self.e_tot = np.interp(self.grid, wv, e)
        w, t = _csv(c / "H2O_transmittance.csv")
        self.t_h2o = np.interp(self.grid, w * 1e3, t)
        # fine absorption: 1 nm optical depth, scaled to the tabulated ppm^-1 m^-1 values
        w, t = _csv(c / "CH4_transmittance.csv")
        k = np.interp(self.grid, w * 1e3, -np.log(np.clip(t, 1e-6, 1.0)))
        k = np.clip(k, 0, None) * (self.grid > 1590)
        wa, a = _csv(c / "CH4_absorption.csv")
        g = np.exp(-0.5 * ((self.grid - wa[:, None] * 1e3) / (5.5 / 2.3548)) ** 2)
        kb = (g @ k) / np.maximum(g.sum(1), 1e-12)
        m = (wa > 1.6) & (wa < 2.48)
        self.k = k * (kb[m] @ a[m]) / (kb[m] @ kb[m]) * abs_scale
        self.a_band = self.srf @ self.k  # band-averaged absorption
        tab = np.interp(self.grid, wa * 1e3, a) * abs_scale
        self.a_table = self.srf @ tab  # tabulated one (database mismatch test)
        self.ch4 = np.where(self.wl > CH4_START)[0]
        self.bg = np.where(self.wl <= CH4_START)[0]
        # noise: SNR at 30 % reflectance
        self.l_ref = self.srf @ (0.3 * self.e_tot * self.t_h2o / np.pi)
        self.snr_ref = np.where(self.wl < 1800, 200.0, 100.0)

    def radiance(self, refl, wl_refl, rho=None, truth="fine", chunk=512):
        """Noise-free at-sensor band radiance; rho in ppm.m or None."""
        out = np.empty((len(refl), len(self.wl)))
        base = self.e_tot * self.t_h2o / np.pi
        # linear interpolation as a matrix (spectra are on wl_refl)
        j = np.clip(np.searchsorted(wl_refl, self.grid) - 1, 0, len(wl_refl) - 2)
        f = np.clip((self.grid - wl_refl[j]) / (wl_refl[j + 1] - wl_refl[j]), 0, 1)
        for i in range(0, len(refl), chunk):
            r = refl[i : i + chunk]
            fine = (r[:, j] * (1 - f) + r[:, j + 1] * f) * base
            if rho is not None and truth == "fine":
                fine = fine * np.exp(-rho[i : i + chunk, None] * self.k * AIRMASS)
            out[i : i + chunk] = fine @ self.srf.T
            if rho is not None and truth == "band":
                out[i : i + chunk] *= np.exp(-rho[i : i + chunk, None] * self.a_band * AIRMASS)
        return out

    def noise_var(self, radiance, snr_scale=1.0):
        """70 % shot + 30 % read at the reference radiance."""
        s2 = (self.l_ref / (self.snr_ref * snr_scale)) ** 2
        return s2 * (0.7 * np.clip(radiance, 0, None) / self.l_ref + 0.3)

    def transmittance(self, rho):
        """Band transmittance averaged over the response (flat background), shape (n, B)."""
        return np.exp(-np.asarray(rho)[:, None] * self.k * AIRMASS) @ self.srf.T


def load_reflectance(data: Path):
    d = np.load(data / "toulouse" / "toulouse.npz")
    good = d["good_band"].astype(bool)
    names = {"asph": "tile_asphalt", "veg": "tile_vegetation", "fib": "tile_fibercement"}
    return {k: d[v].reshape(-1, int(good.sum())).astype(np.float64) / 1e4 for k, v in names.items()}, d[
        "wavelength_um"
    ][good] * 1e3


def make_dataset(
    data: Path,
    split="random",
    conc="high",
    seed=0,
    abs_scale=1.0,
    truth="fine",
    snr_scale=1.0,
    frac_plume=0.85,
    frac_test=0.4,
):
    rng = np.random.default_rng(seed)
    s = Sensor(data, abs_scale)
    tiles, wl_r = load_reflectance(data)
    ok = {t: v[v.mean(1) > 0.01] for t, v in tiles.items()}  # drop fill pixels
    if split == "random":
        allr = np.concatenate([ok[t] for t in ("asph", "veg", "fib")])
        perm = rng.permutation(len(allr))
        n_np = round((1 - frac_plume) * len(allr))
        n_te = round(frac_test * len(allr))
        idx = {"noplume": perm[:n_np], "test": perm[n_np : n_np + n_te], "train": perm[n_np + n_te :]}
        refl = {k: allr[v] for k, v in idx.items()}
    elif split == "fib":
        tr = np.concatenate([ok["asph"], ok["veg"]])
        perm = rng.permutation(len(tr))
        n_np = round((1 - frac_plume) * len(tr))
        refl = {
            "noplume": tr[perm[:n_np]],
            "train": tr[perm[n_np:]],
            "test": ok["fib"][rng.permutation(len(ok["fib"]))],
        }
    else:
        raise ValueError(split)
    lo, hi = RANGES[conc]
    out = {"sensor": s, "range": (lo, hi), "snr_scale": snr_scale}
    for part in ("noplume", "train", "test"):
        r = refl[part]
        rho = np.zeros(len(r)) if part == "noplume" else rng.uniform(lo, hi, len(r))
        clean = s.radiance(r, wl_r, None if part == "noplume" else rho, truth)
        out[part] = clean + rng.standard_normal(clean.shape) * np.sqrt(s.noise_var(clean, snr_scale))
        out["rho_" + part] = rho
        if part == "test":
            out["test_background"] = s.radiance(r, wl_r)  # oracle diagnostics only
    return out


def metrics(pred, true):
    pred, true = np.asarray(pred, float), np.asarray(true, float)
    e = pred - true
    return {
        "MAE": np.abs(e).mean(),
        "bias": e.mean(),
        "RMSE": np.sqrt((e**2).mean()),
        "slope": np.polyfit(true, pred, 1)[0],
        "R2": 1 - (e**2).sum() / ((true - true.mean()) ** 2).sum(),
    }


if __name__ == "__main__":
    import argparse
    import time

    from benchmarks.protocols import add_data_option

    parser = argparse.ArgumentParser()
    add_data_option(parser)
    folder = parser.parse_args().data
    for sp in ("random", "fib"):
        for c in ("high", "low"):
            t0 = time.time()
            d = make_dataset(folder, split=sp, conc=c)
            s = d["sensor"]
            print(
                sp,
                c,
                {k: d[k].shape for k in ("noplume", "train", "test")},
                "bands",
                len(s.wl),
                "bg",
                len(s.bg),
                "ch4",
                len(s.ch4),
                "%.1fs" % (time.time() - t0),
            )
            if c == "high":
                T = s.transmittance(np.array([2e4, 1e5, 2.5e3]))
                B = np.exp(-np.array([2e4, 1e5, 2.5e3])[:, None] * s.a_band * AIRMASS)
                print(
                    " min T",
                    T.min(1),
                    B.min(1),
                    "max|T-B|",
                    np.abs(T - B).max(1),
                    f"A max {s.a_band.max():.3g} table {s.a_table.max():.3g}",
                    f"corr {np.corrcoef(s.a_band[s.ch4], s.a_table[s.ch4])[0, 1]:.3f}",
                )
