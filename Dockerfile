# syntax=docker/dockerfile:1
# A small image: the program, git, ssh, bash, and the libraries that they need. No package manager.
#
#   docker build --build-arg VERSION=0.1.0 --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) --tag gitops-reverser .

ARG RUST_IMAGE=rust:1.95-slim-bookworm
ARG DEBIAN_IMAGE=debian:bookworm-slim

FROM ${RUST_IMAGE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends cmake g++ make
WORKDIR /src
COPY . .
ARG SOURCE_DATE_EPOCH=0
# Paths of the build are the same everywhere, so that its result is.
ENV RUSTFLAGS="--remap-path-prefix=/src=. --remap-path-prefix=/usr/local/cargo=cargo"
# `otlp` lets it send spans to a collector.
ARG FEATURES=""
RUN cargo build --locked --release --package gitops-reverser --features "${FEATURES}"

FROM ${DEBIAN_IMAGE} AS rootfs
COPY image/ /image/
RUN apt-get update && xargs apt-get install --yes --no-install-recommends < /image/packages
COPY --from=build /src/target/release/gitops-reverser /gitops-reverser
ARG SOURCE_DATE_EPOCH=0
RUN /image/rootfs.sh /gitops-reverser /rootfs \
 && find /rootfs -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

FROM scratch
COPY --from=rootfs /rootfs /
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gitops-reverser" \
      org.opencontainers.image.description="Keeps a folder of a Git branch equal to what lives in a Kubernetes cluster" \
      org.opencontainers.image.source="https://github.com/configbutler/gitops-reverser" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The allocator gives back what pages of lists took, in place of keeping a few megabytes for each thread.
ENV PATH=/usr/local/bin:/usr/bin:/bin \
    MALLOC_TRIM_THRESHOLD_=131072
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/gitops-reverser"]
