# The image of the gateway: the program alone, as a numeric user. The program is static and
# contains root certificates and time zones, so the image needs no files of a distribution. Mount
# your own certificates over /etc/ssl/certs/ca-certificates.crt; they replace the built-in ones.
#
#   docker build -t eventhook .                                   builds the program, too
#   docker build --build-arg TAGS=temporal -t eventhook-temporal . with the client of Temporal
#   docker build --target prebuilt --build-arg PROGRAM=FILE .     adds a program that make build or
#                                                                 make release made, and pulls nothing

ARG GO_IMAGE=golang:1.26

FROM scratch AS base
USER 65532:65532
WORKDIR /
# Public (webhooks and API) and management (health and metrics).
EXPOSE 8080 9980
# Orchestrators restart an unhealthy container: only a process that does not answer is unhealthy.
# For "ready", which includes the database, use: eventhook health
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 CMD ["/eventhook", "health", "--live"]
# The private PostgreSQL needs PostgreSQL's programs, which are not in the image: set DATABASE_URL.
ENTRYPOINT ["/eventhook"]
CMD ["serve"]

FROM base AS prebuilt
ARG PROGRAM=bin/eventhook
COPY ${PROGRAM} /eventhook

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=
ARG TAGS=
RUN CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -trimpath -tags "${TAGS}" \
	-ldflags "-s -w -buildid= -X main.version=${VERSION} -X main.commit=${COMMIT}" -o /eventhook ./cmd/eventhook

FROM base
COPY --from=build /eventhook /eventhook
COPY LICENSE /LICENSE
