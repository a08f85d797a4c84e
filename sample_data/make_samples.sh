#!/bin/sh
# Makes the sample scenes of this folder anew; the result is the same to the byte.
set -eu
cd "$(dirname "$0")"
p3vae simulate -o town.tif --size 144x144 --bands 80 --seed 7 --overwrite
p3vae simulate -o . --layout prisma-l1 --size 96x48 --seed 3 --plume 15000 --overwrite
