"""Real land-cover scenes: spatially disjoint splits with few labels, and the baselines an analyst has anyway.

    d = load("houston", data)                 dict: x (rows, cols, bands) reflectance,
                                              wavelength_nm, label, group, name, sun_zenith_deg
    train, test = split(d, seed=0)            label images, 0 = not used; whole groups on one side only
    baselines(x_train, y_train, x_test)       {"lda": (predicted, confidence), "svm", ...}
    score(truth, predicted, confidence)       {"f1", "oa", "ece"}
    python -m protocols.real --data DIR       prints the baselines' table

Groups are connected components of a class; per class a share of the groups is labelled (at least `least`),
at most 60 pixels of each as one compact patch; the rest of a labelled group is never tested; classes with
under 10 pixels on either side are left out.
Potsdam is read from ../enmap_potsdam with its own split (see data/README.md). numpy, scipy, scikit-learn.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.protocols import add_data_option

Array = np.ndarray[Any, Any]

SCENES = ("houston", "indian_pines", "crowns", "jasper")
SHARE = {"houston": (0.2, 2), "indian_pines": (0.5, 1), "jasper": (0.15, 2), "crowns": (0.3, 3)}
PATCH, FEWEST = 60, 10


def load(name: str, data: Path) -> dict[str, Any]:
    f = np.load(data / "real" / f"{name}.npz")
    x = f["cube"].astype(np.float32) / 1e4
    x[f["cube"].max(-1) == 0] = np.nan  # no data
    return {
        "scene": name,
        "x": x,
        "wavelength_nm": f["wavelength_nm"].astype(float),
        "label": f["label"].astype(int),
        "group": f["group"],
        "name": [str(n) for n in f["name"]],
        "sun_zenith_deg": float(f["sun_zenith_deg"]),
    }


def split(d: dict[str, Any], seed: int) -> tuple[Array, Array]:
    share, least = SHARE[d["scene"]]
    rng = np.random.default_rng(seed)
    label, group = d["label"], d["group"]
    train, used = np.zeros_like(label), np.zeros(label.shape, bool)
    for c in np.unique(label[label > 0]):
        groups = np.unique(group[label == c])
        rng.shuffle(groups)
        want, got, pixels = max(least, round(share * len(groups))), 0, 0
        for g in groups[:-1]:
            mine = (group == g) & (label == c)
            used |= mine
            at = np.argwhere(mine)
            if len(at) > PATCH:
                at = at[np.argsort(((at - at[rng.integers(len(at))]) ** 2).sum(1))[:PATCH]]
            train[tuple(at.T)] = c
            got, pixels = got + 1, pixels + len(at)
            if got >= want and pixels >= FEWEST:
                break
    test = np.where((label > 0) & ~used, label, 0)
    keep = [
        c for c in np.unique(label[label > 0]) if (train == c).sum() >= FEWEST and (test == c).sum() >= FEWEST
    ]
    return np.where(np.isin(train, keep), train, 0), np.where(np.isin(test, keep), test, 0)


def baselines(
    x: Array, y: Array, xt: Array, seed: int = 0, only: str | None = None
) -> dict[str, tuple[Array, Array | None]]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    grid = {"svc__C": [1, 10, 100, 1000], "svc__gamma": ["scale", 1e-3, 1e-4]}
    models = {
        "lda": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "lda_uniform": LinearDiscriminantAnalysis(
            solver="lsqr", shrinkage="auto", priors=np.full(k := len(np.unique(y)), 1 / k)
        ),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=3000)),
        "svm": GridSearchCV(
            make_pipeline(StandardScaler(), SVC()),
            grid,
            cv=StratifiedKFold(3, shuffle=True, random_state=seed),
        ),
        "forest": RandomForestClassifier(300, random_state=seed, n_jobs=1),
    }
    out = {}
    for name, model in models.items():
        if only not in (None, name):
            continue
        model.fit(x, y)
        out[name] = (
            model.predict(xt),
            model.predict_proba(xt).max(1) if hasattr(model, "predict_proba") else None,
        )
    return out


def score(truth: Array, predicted: Array, confidence: Array | None = None) -> dict[str, float]:
    from sklearn.metrics import f1_score

    out = {
        "f1": float(f1_score(truth, predicted, labels=np.unique(truth), average="macro")),
        "oa": float((truth == predicted).mean()),
    }
    if confidence is not None:
        right, b = truth == predicted, np.clip((confidence * 10).astype(int), 0, 9)
        out["ece"] = float(
            sum(
                (b == k).mean() * abs(confidence[b == k].mean() - right[b == k].mean())
                for k in range(10)
                if (b == k).any()
            )
        )
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_data_option(parser)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    seeds = range(asked.seeds)
    for scene in SCENES:
        d, rows = load(scene, asked.data), {}
        for seed in seeds:
            train, test = split(d, seed)
            y, t = train[train > 0], test[test > 0]
            for name, (p, c) in baselines(d["x"][train > 0], y, d["x"][test > 0], seed).items():
                rows.setdefault(name, []).append(score(t, p, c))
        for name, r in rows.items():
            print(scene, name, {k: round(float(np.mean([v[k] for v in r])), 3) for k in r[0]}, flush=True)
