"""What every other package of the command line stands on: errors, screens, tiles, tables."""
