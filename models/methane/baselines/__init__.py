"""Published retrievals of methane to compare with."""
