"""FG-UNet: a U-Net on image patches."""

from p3vae.paper.landcover.fg_unet.estimator import FGUNet

__all__ = ["ESTIMATOR", "FGUNet"]

ESTIMATOR = FGUNet
