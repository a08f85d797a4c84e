"""FG-UNet: a U-Net on image patches."""

from p3vae.models.landcover.baselines.fg_unet.estimator import FGUNet

__all__ = ["ESTIMATOR", "FGUNet"]

ESTIMATOR = FGUNet
