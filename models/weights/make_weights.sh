#!/bin/sh
# Trains the shipped model anew on a simulated town that is not the sample scene.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
p3vae simulate -o "$work/town.tif" --size 256x256 --bands 80 --seed 11
# Without the edges of the spectrum and of the water-vapour gaps the model also fits PRISMA, EnMAP and EMIT.
p3vae train "$work/town.tif" --labels "$work/town_labels.gpkg" -o town.p3vae --seed 1 --overwrite \
  --bad-bands "300-450,1290-1500,1740-2000,2400-2600"
