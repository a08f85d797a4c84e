"""How the shipped model `earth` is made: spectral libraries, the ground they are mixed to, and the fit.

`python -m p3vae.models.landcover.earth --data DIR -o earth.p3vae` makes it anew.
"""
