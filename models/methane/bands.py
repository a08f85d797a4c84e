"""Which bands a methane background is for; read without torch."""

SAME_BAND_NM = 1.0
"""Band centres closer than this are the same [nm]: a background is never resampled."""
