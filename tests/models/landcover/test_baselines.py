"""The models p3VAE is compared with: they learn, repeat, and survive storage."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from p3vae.models.checkpoint import load_state, save_state
from p3vae.models.landcover.baselines.random_forest import RandomForest
from p3vae.models.landcover.estimator import Frame
from p3vae.models.landcover.model import load_model, save_model
from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import ClassLegend, TrainingError, TrainingSet, TrainingSettings
from p3vae.paper.landcover.cnn import SpectralCNN
from p3vae.paper.landcover.network import SpectraBatch
from p3vae.paper.landcover.ss_infogan import SemiSupervisedInfoGAN
from p3vae.paper.nn.classifiers import SegmentClassifier
from p3vae.paper.nn.layers import SegmentFilters
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

WAVE = np.concatenate([np.linspace(450, 1300, 18), np.linspace(1500, 1750, 6)])
BANDS = Bands.from_centres(WAVE)
LIGHT = SpectralIrradiance(WAVE, 1500 * np.exp(-WAVE / 900), 900 * np.exp(-WAVE / 350), 30.0)
LEGEND = ClassLegend((3, 7, 9), ("grass", "roof", "road"), ((0, 160, 0), (200, 60, 0), (90, 90, 90)))
MATERIALS = np.stack([0.1 + 0.4 / (1 + np.exp(-(WAVE - 720) / 20)), 0.1 + WAVE / 5000, 0.12 + 0 * WAVE])
EPOCHS = {"cnn": 20, "gaussian-vae": 16, "guided-vae": 16, "ss-infogan": 20, "random-forest": None}


def pixels(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, count)
    spectra = MATERIALS[truth] * rng.uniform(0.8, 1.2, (count, 1)) + 0.005 * rng.standard_normal((count, 24))
    return spectra.astype(np.float32), truth


def training_set() -> TrainingSet:
    spectra, truth = pixels(160, 0)
    return TrainingSet(spectra, truth, truth * 10 + np.arange(160) % 5, pixels(100, 1)[0])


@pytest.fixture(scope="module", params=list(EPOCHS))
def trained(request):
    torch.set_num_threads(1)
    reports = []
    settings = TrainingSettings(model=request.param, epochs=EPOCHS[request.param], batch_size=8, seed=3)
    model = train_land_cover(training_set(), BANDS, LIGHT, LEGEND, settings, on_epoch=reports.append)
    return model, reports


def test_learns_and_tells_what_it_can(trained):
    model, reports = trained
    spectra, truth = pixels(200, 2)
    found = model.predict(spectra, LIGHT, want_probabilities=True)
    assert (found.class_id == np.array(LEGEND.ids)[truth]).mean() > 0.9
    assert (model.predict(spectra, LIGHT, method="classifier").class_id > 0).all()
    np.testing.assert_allclose(found.probabilities.sum(1), 1, atol=1e-5)
    assert found.irradiance is None and found.sky is None
    assert (found.misfit is not None) == ("posterior" in model.methods)
    with pytest.raises(ValueError, match="does not estimate light"):
        model.relight(spectra, LIGHT)
    if "posterior" not in model.methods:
        with pytest.raises(ValueError, match="no posterior"):
            model.predict(spectra, LIGHT, method="posterior")
    if model.settings.model not in ("random-forest", "ss-infogan"):
        assert reports[-1].losses["total"] < 0.8 * reports[0].losses["total"]


def test_noise_is_unknown_to_a_model_that_reconstructs(trained):
    model, _ = trained
    if not model.estimator.gives_misfit:
        return
    noise = np.random.default_rng(3).uniform(0, 1, (200, len(WAVE))).astype(np.float32)
    ground = pixels(200, 2)[0]
    assert (model.predict(noise, LIGHT).misfit > 1).mean() > 0.9
    assert (model.predict(ground, LIGHT).misfit > 1).mean() < 0.03


def test_result_of_a_pixel_depends_on_it_alone(trained):
    model, _ = trained
    spectra = pixels(60, 4)[0]
    spectra[5], spectra[6, 2] = 0.0, np.nan
    whole = model.predict(spectra, LIGHT, want_probabilities=True)
    parts = [
        model.predict(part, LIGHT, want_probabilities=True)
        for part in (spectra[:7], spectra[7:8], spectra[8:])
    ]
    np.testing.assert_allclose(
        np.concatenate([part.probabilities for part in parts]), whole.probabilities, atol=1e-4
    )
    assert whole.class_id[5:7].tolist() == [0, 0]
    assert len(model.predict(spectra[:0], LIGHT).class_id) == 0


def test_survives_storage(trained, tmp_path):
    model, _ = trained
    save_model(tmp_path / "m.p3vae", model)
    again = load_model(tmp_path / "m.p3vae")
    assert again.settings.model == model.settings.model
    assert again.digest == model.digest
    spectra = pixels(30, 5)[0]
    for method in model.methods:
        one, other = (m.predict(spectra, LIGHT, method=method).confidence for m in (model, again))
        np.testing.assert_array_equal(one, other)


def test_codes_and_latent_spectra_have_their_shapes(trained):
    model, _ = trained
    codes, spectra = model.codes(pixels(11, 6)[0], LIGHT), model.latent_spectra()
    if model.settings.model in ("cnn", "random-forest"):
        assert codes is None
        assert model.generate(0, np.zeros((2, 5), np.float32), LIGHT) is None
    else:
        made = model.generate(1, codes, LIGHT)
        assert made.shape == (11, 24) and ((made >= 0) & (made <= 1)).all()
        assert codes.shape == (11, 5) and np.isfinite(codes).all() and codes.std() > 0
    if model.settings.model == "guided-vae":
        assert [rows.shape for rows in spectra] == [(4, 24)] * 3
        assert all(((rows >= 0) & (rows <= 1)).all() for rows in spectra)
    else:
        assert spectra is None


@pytest.mark.parametrize("model", list(EPOCHS))
def test_same_seed_same_model(model):
    settings = TrainingSettings(model=model, epochs=2, batch_size=64, seed=1)
    digests = {train_land_cover(training_set(), BANDS, LIGHT, LEGEND, settings).digest for _ in range(2)}
    assert len(digests) == 1


@pytest.mark.parametrize("model", ["gaussian-vae", "ss-infogan"])
def test_resumed_equals_uninterrupted(model):
    settings, states = TrainingSettings(model=model, epochs=3, batch_size=64), []
    frame = (training_set(), BANDS, LIGHT, LEGEND, settings)
    whole = train_land_cover(*frame, save_state=states.append)
    assert train_land_cover(*frame, resume_from=states[0]).digest == whole.digest


@pytest.mark.parametrize("saved", [0, 1])
def test_a_restarted_run_is_resumed_from_its_own_seed(monkeypatch, tmp_path, saved):
    """The first start breaks down; the second one is stopped after an epoch or two, and goes on."""
    losses, seeds = SpectralCNN.losses, []

    def unlucky_at_first(self, batch):
        seeds.append(torch.initial_seed())
        terms = losses(self, batch)
        return {"total": terms["total"] * (np.nan if seeds[-1] == seeds[0] else 1.0)}

    monkeypatch.setattr(SpectralCNN, "losses", unlucky_at_first)
    settings, states = TrainingSettings(model="cnn", epochs=3, batch_size=64), []
    frame = (training_set(), BANDS, LIGHT, LEGEND, settings)
    whole = train_land_cover(*frame, save_state=states.append)
    assert whole.summary.restarts == 1
    save_state(tmp_path / "state", states[saved])
    resumed = train_land_cover(*frame, resume_from=load_state(tmp_path / "state"))
    assert resumed.digest == whole.digest


def test_without_physics_the_published_model_is_called_guided():
    settings = TrainingSettings(preset="paper", physics=False)
    with pytest.raises(TrainingError, match="guided-vae"):
        train_land_cover(training_set(), BANDS, LIGHT, LEGEND, settings)


def test_forest_votes_as_the_library_that_grew_it():
    spectra, truth = pixels(120, 7)
    truth = truth + (truth > 0)  # class 1 of four has no sample
    grown = RandomForestClassifier(15, max_depth=6, random_state=0).fit(spectra, truth)
    test = pixels(300, 8)[0]
    found = RandomForest.from_sklearn(grown, 4).probabilities(torch.from_numpy(test)).numpy()
    np.testing.assert_allclose(found[:, [0, 2, 3]], grown.predict_proba(test), atol=1e-12)
    assert (found[:, 1] == 0).all()


def test_trees_stay_where_double_precision_is():
    """The device `meta` has no numbers at all."""
    spectra, truth = pixels(60, 7)
    forest = RandomForest.from_sklearn(RandomForestClassifier(5, random_state=0).fit(spectra, truth), 3)
    x = torch.from_numpy(spectra)
    torch.testing.assert_close(forest.to("meta").probabilities(x), forest.probabilities(x))


def test_filters_are_convolutions_of_each_run_by_itself():
    torch.manual_seed(0)
    filters, spectra = SegmentFilters((12, 17)), torch.rand(5, 29)
    kernels = torch.split(filters.weight, [3, 3])
    expected = torch.cat(
        [
            nn.functional.conv1d(part[:, None], kernel[None, None], bias[None], padding="same")[:, 0]
            for part, kernel, bias in zip(spectra.split([12, 17], 1), kernels, filters.bias, strict=True)
        ],
        1,
    )
    torch.testing.assert_close(filters(spectra), expected)


def test_dropout_is_for_training_only():
    net, spectra = SegmentClassifier((12, 5), 3), torch.rand(6, 17)
    assert not torch.equal(net(spectra), net(spectra))
    net.eval()
    torch.testing.assert_close(net(spectra), net(spectra), rtol=0, atol=0)


def test_each_gan_term_reaches_its_own_networks():
    torch.manual_seed(0)
    gan = SemiSupervisedInfoGAN(Frame(LEGEND, BANDS, LIGHT, TrainingSettings()))
    batch = SpectraBatch(torch.rand(8, 24), torch.arange(8) % 3, torch.rand(8, 24), 0)

    def touched(term: str) -> set[str]:
        gan.zero_grad()
        gan.losses(batch)[term].backward()
        return {
            name.split(".")[0]
            for name, parameter in gan.named_parameters()
            if parameter.grad is not None and parameter.grad.abs().sum() > 0
        }

    assert touched("generator") == {"generator"}
    assert touched("critic") == {"critic"}
    assert touched("information") == {"generator", "classifier"}
    assert "generator" not in gan.losses(batch._replace(step=1))


def test_gradient_penalty_is_least_for_a_critic_of_unit_slope():
    gan = SemiSupervisedInfoGAN(Frame(LEGEND, BANDS, LIGHT, TrainingSettings()))
    direction = torch.zeros(24)
    direction[3] = 1.0
    gan.critic.forward = lambda spectra: spectra @ direction  # a critic whose slope is one everywhere
    real, made = torch.rand(8, 24), torch.rand(8, 24)
    expected = (made @ direction).mean() - (real @ direction).mean()
    torch.testing.assert_close(gan._critic_loss(real, made), expected)


def test_a_model_that_does_not_exist_is_refused():
    with pytest.raises(TrainingError, match="no model is called 'cnm'; there are p3vae"):
        train_land_cover(training_set(), BANDS, LIGHT, LEGEND, TrainingSettings(model="cnm"))
