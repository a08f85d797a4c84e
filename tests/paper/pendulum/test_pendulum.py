"""The pendulum models: what may learn from what, that they learn, and that a seed is enough to repeat it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from p3vae.models.checkpoint import ModelFormatError
from p3vae.paper.nn.layers import dense, frozen_copy
from p3vae.paper.nn.losses import gaussian_kl
from p3vae.paper.pendulum.model import NAMES, PendulumModel, PendulumSettings, train_pendulum
from p3vae.paper.pendulum.network import PendulumNetwork
from p3vae.paper.pendulum.p3vae import PendulumP3Vae
from p3vae.paper.pendulum.physics import Pendulums, simulate_pendulums
from p3vae.paper.pendulum.published import OdeVae, PhiVae, PublishedP3Vae
from p3vae.paper.pendulum.scores import score_pendulum

P3VAES = [PendulumP3Vae, PublishedP3Vae]


@pytest.fixture(scope="module")
def pendulums() -> Pendulums:
    return simulate_pendulums(24, steps=60, max_xi=0.5, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def batch(pendulums: Pendulums) -> tuple[torch.Tensor, torch.Tensor]:
    omega = pendulums.omega.copy()
    omega[8:] = np.nan
    return torch.tensor(pendulums.angle[:, :50]).float(), torch.tensor(omega).float()


def trained(pendulums: Pendulums, name: str, **settings: object) -> tuple[PendulumModel, list[float]]:
    losses: list[float] = []
    model = train_pendulum(
        pendulums.angle,
        pendulums.omega,
        pendulums.angle,
        pendulums.omega,
        PendulumSettings(name, batch_size=24, **settings),
        on_epoch=lambda outcome: losses.append(outcome.validation),
    )
    return model, losses


def gradients(network: nn.Module, loss: torch.Tensor, part: str) -> list[torch.Tensor | None]:
    parameters = list(network.get_submodule(part).parameters())
    return list(torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True))


@pytest.mark.parametrize("kind", P3VAES)
def test_swings_of_unknown_frequency_never_teach_the_force(
    kind: type[PendulumP3Vae | PublishedP3Vae], batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    torch.manual_seed(0)
    network = kind(stop_gradient=True)
    loss = network.unlabelled_terms(batch[0])["unlabelled"]
    assert all(gradient is None for gradient in gradients(network, loss, "force"))
    assert any(gradient.abs().max() > 0 for gradient in gradients(network, loss, "omega_encoder"))


@pytest.mark.parametrize("kind", P3VAES)
def test_without_stop_gradient_they_do(
    kind: type[PendulumP3Vae | PublishedP3Vae], batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    torch.manual_seed(0)
    network = kind(stop_gradient=False)
    loss = network.unlabelled_terms(batch[0])["unlabelled"]
    assert any(gradient.abs().max() > 0 for gradient in gradients(network, loss, "force"))


@pytest.mark.parametrize("kind", P3VAES)
def test_swings_of_known_frequency_teach_force_and_encoders(
    kind: type[PendulumP3Vae | PublishedP3Vae], batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    torch.manual_seed(0)
    network = kind()
    terms = network.labelled_terms(batch[0][:8], batch[1][:8])
    assert any(gradient.abs().max() > 0 for gradient in gradients(network, terms["labelled"], "force"))
    assert any(gradient.abs().max() > 0 for gradient in gradients(network, terms["omega"], "omega_encoder"))


def test_the_model_s_own_swings_teach_encoders_only(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    torch.manual_seed(0)
    network = PendulumP3Vae()
    loss = network.sleep_term(batch[0])
    assert all(gradient is None for gradient in gradients(network, loss, "force"))
    assert all(gradient.abs().max() > 0 for gradient in gradients(network, loss, "environment_encoder"))


def test_the_damping_has_no_trainable_part() -> None:
    names = {name.split(".")[0] for name, _ in PendulumP3Vae().named_parameters()}
    assert names == {"force", "log_noise", "omega_encoder", "environment_encoder"}


def test_the_learned_force_pulls_back_and_is_the_same_on_both_sides() -> None:
    network = PendulumP3Vae()
    for parameter in network.force.parameters():
        nn.init.normal_(parameter, std=0.3)
    log_omega, angle = torch.randn(100), torch.rand(100) * 1.5 + 0.01
    right, left = network.force(log_omega, angle), network.force(log_omega, -angle)
    assert (right < 0).all()
    assert torch.equal(left, -right)


@pytest.mark.parametrize("name", NAMES)
def test_loss_falls_and_a_saved_model_predicts_the_same(
    pendulums: Pendulums, name: str, tmp_path: Path
) -> None:
    model, losses = trained(pendulums, name, epochs=6)
    assert losses[-1] < losses[0]
    prediction = model.predict(pendulums.angle[:5], 60)
    assert prediction.angle.shape == (5, 60)
    assert prediction.codes.shape == (5, len(prediction.code_names))
    model.save(tmp_path / "model.p3vae")
    loaded = PendulumModel.load(tmp_path / "model.p3vae")
    assert loaded.settings == model.settings
    assert np.array_equal(prediction.angle, loaded.predict(pendulums.angle[:5], 60).angle)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_repeats_the_run_whatever_happened_before(pendulums: Pendulums, name: str) -> None:
    weights = []
    for seed in (3, 3, 4):
        torch.rand(7)
        model, _ = trained(pendulums, name, epochs=1, seed=seed)
        weights.append(nn.utils.parameters_to_vector(model.network.parameters()))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_prediction_sees_the_first_fifty_angles_only(pendulums: Pendulums) -> None:
    model, _ = trained(pendulums, "p3vae", epochs=1)
    seen = pendulums.angle[:5]
    changed = np.concatenate((seen[:, :50], np.full((5, 10), 7.0)), axis=1)
    assert np.array_equal(model.predict(changed, 60).angle, model.predict(seen, 60).angle)


def test_unlabelled_frequencies_are_never_read(pendulums: Pendulums) -> None:
    """The seed picks which ω are known; changing all others changes nothing."""
    picked = np.random.default_rng(0).permutation(24)[:5]
    hidden = Pendulums(pendulums.angle, pendulums.clean, pendulums.start, np.full(24, 99.0), pendulums.xi)
    hidden.omega[picked] = pendulums.omega[picked]
    settings = PendulumSettings("p3vae-published", epochs=2, labelled_fraction=5 / 24)
    validation = pendulums.angle, pendulums.omega
    full = train_pendulum(pendulums.angle, pendulums.omega, *validation, settings)
    partial = train_pendulum(hidden.angle, hidden.omega, *validation, settings)
    codes = [model.predict(pendulums.angle, 50).codes for model in (full, partial)]
    assert np.array_equal(*codes)


@pytest.mark.parametrize("network", [OdeVae(), PhiVae(), PublishedP3Vae(), PendulumP3Vae()])
def test_every_loss_term_is_a_finite_number(
    network: PendulumNetwork, batch: tuple[torch.Tensor, torch.Tensor]
) -> None:
    terms = network.loss_terms(*batch)
    assert all(term.shape == () and torch.isfinite(term) for term in terms.values())


def test_kl_is_torch_s_own() -> None:
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(0.3, 0.2), normal(0.5, 0.866))
    assert float(gaussian_kl(torch.tensor(0.3), torch.tensor(0.2), 0.5, 0.866)) == pytest.approx(
        float(expected)
    )


def test_a_frozen_copy_passes_gradients_to_its_inputs() -> None:
    module, inputs = dense(2, 4, 1, activation=nn.ELU), torch.ones(3, 2, requires_grad=True)
    frozen_copy(module)(inputs).sum().backward()
    assert inputs.grad is not None
    assert inputs.grad.abs().max() > 0
    assert all(parameter.grad is None and parameter.requires_grad for parameter in module.parameters())


def test_scores_of_a_barely_trained_model_are_numbers(pendulums: Pendulums) -> None:
    model, _ = trained(pendulums, "p3vae", epochs=1)
    scores = score_pendulum(model, pendulums.angle, pendulums.omega, pendulums.xi)
    floor = np.abs(pendulums.clean - pendulums.angle)
    assert 0.5 * floor[:, :50].sum(1).mean() < scores.in_mae < 50.0
    assert 0.0 <= scores.omega.normalised <= 1.0


def test_bad_input_is_named(pendulums: Pendulums, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no pendulum model"):
        PendulumSettings("ode")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="labelled_fraction"):
        PendulumSettings(labelled_fraction=0.0)
    model = PendulumModel(OdeVae(), PendulumSettings("vae-ode"))
    with pytest.raises(ValueError, match="at least 50"):
        model.predict(pendulums.angle[:, :20], 60)
    with pytest.raises(ModelFormatError):
        PendulumModel.load(tmp_path / "nothing.p3vae")
