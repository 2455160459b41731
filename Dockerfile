# Images of broker and agent: docker build --target broker|agent, or make docker.
# Releases are built by hack/images, which needs no container engine and is reproducible.
# hack/dockerfile tests that both give the same entrypoint, user, labels and files.

FROM --platform=${BUILDPLATFORM:-linux/amd64} golang:1.26 AS source
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=dev
ENV CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH}

FROM source AS build-broker
RUN go build -trimpath -buildvcs=false -o /ko-app/broker \
    -ldflags "-s -w -X github.com/mehdiazizian/liqo-resource-broker/internal/version.linked=${VERSION}" ./cmd/broker

FROM source AS build-agent
RUN go build -trimpath -buildvcs=false -o /ko-app/agent \
    -ldflags "-s -w -X github.com/mehdiazizian/liqo-resource-broker/internal/version.linked=${VERSION}" ./cmd/agent

FROM gcr.io/distroless/static:nonroot AS base
ARG VERSION=dev
ARG REVISION
ARG CREATED=1970-01-01T00:00:00Z
# A number: Kubernetes cannot tell from a name that a user is not root.
USER 65532:65532
# ko adds its folder, too: "kubectl exec" finds the program by its name.
ENV PATH=${PATH}:/ko-app
LABEL org.opencontainers.image.description="Capacity of one Kubernetes cluster as a virtual node in another, by reservation" \
      org.opencontainers.image.url="https://github.com/mehdiazizian/liqo-resource-broker" \
      org.opencontainers.image.source="https://github.com/mehdiazizian/liqo-resource-broker" \
      org.opencontainers.image.documentation="https://github.com/mehdiazizian/liqo-resource-broker/tree/main/docs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

FROM base AS agent
LABEL org.opencontainers.image.title="liqo-resource-broker agent"
COPY --from=build-agent /ko-app/agent /ko-app/agent
ENTRYPOINT ["/ko-app/agent"]

FROM base AS broker
LABEL org.opencontainers.image.title="liqo-resource-broker broker"
COPY --from=build-broker /ko-app/broker /ko-app/broker
ENTRYPOINT ["/ko-app/broker"]
