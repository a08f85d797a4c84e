"""The files of one run as a set: made, committed, resumed, verified, described in STAC."""
