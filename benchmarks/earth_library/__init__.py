"""How the shipped model `earth` is made: spectral libraries, the ground they are mixed to, and the fit.

`python -m benchmarks earth_library --data DIR -o earth.p3vae` makes it anew.
"""
