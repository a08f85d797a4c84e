# p3vae on a CPU, from Debian and PyPI packages by name.
#   docker build -t p3vae .
#   docker run --rm -v "$PWD:/data" -u "$(id -u):$(id -g)" p3vae classify scene.tif -o maps
# Versions of Debian packages are those of the release, with its security updates.
# hadolint global ignore=DL3008
FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/p3vae
WORKDIR /source
COPY constraints.txt ./
# torch first: with --build-arg PIP_OPTIONS="--index-url …" it can be a CPU build, without gigabytes for GPUs.
ARG PIP_OPTIONS=""
RUN /opt/p3vae/bin/pip install --no-cache-dir $PIP_OPTIONS -c constraints.txt torch
COPY pyproject.toml setup.py README.md LICENSE NOTICE ./
COPY p3vae_cli p3vae_cli
COPY models models
COPY physics physics
COPY paper paper
RUN /opt/p3vae/bin/pip install --no-cache-dir -c constraints.txt ".[distributed,stac]"

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 libexpat1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 p3vae
COPY --from=build /opt/p3vae /opt/p3vae
USER 1000
WORKDIR /data
ENTRYPOINT ["/opt/p3vae/bin/p3vae"]
CMD ["--help"]
