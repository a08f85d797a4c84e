"""FG-UNet: a U-Net on image patches."""
