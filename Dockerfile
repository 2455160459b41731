# Builds one image for each binary:
#
#   docker build --build-arg BINARY=broker -t liqo-resource-broker-broker .
#   docker build --build-arg BINARY=agent  -t liqo-resource-broker-agent .
#
# The binaries are static and read nothing from their image, so that
# --build-arg BASE=scratch works as well. BUILDER is any image that has Go.
ARG BUILDER=golang:1.26
ARG BASE=gcr.io/distroless/static-debian12:nonroot

FROM ${BUILDER} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG BINARY
RUN test -n "${BINARY}" || { echo "give --build-arg BINARY=broker or BINARY=agent"; exit 1; }
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/app "./cmd/${BINARY}"

FROM ${BASE}
LABEL org.opencontainers.image.source="https://github.com/mehdiazizian/liqo-resource-broker" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/app /app
# Numeric, because Kubernetes cannot tell from a name that it is not root.
USER 65532:65532
ENTRYPOINT ["/app"]
