#!/usr/bin/env bash
# Writes deepcopy code and CRDs from the Go types.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

generate() { go run -modfile=hack/tools/go.mod sigs.k8s.io/controller-tools/cmd/controller-gen "$@"; }

generate object paths=./api/broker/... paths=./api/agent/... paths=./internal/agent/autoscaling
generate crd paths=./api/broker/... output:crd:dir=charts/broker/files/crds
generate crd paths=./api/agent/... output:crd:dir=charts/agent/files/crds

# The generator's pattern for quantities admits any exponent and any number of digits. To add or
# compare 1e-2147483647 keeps a processor busy for minutes, in every process that reads the
# object. The pattern is therefore replaced by one with limits, as for quantities that are read
# from the network (internal/wire).
digits='[0-9]{1,32}(\\.[0-9]{0,32})?|\\.[0-9]{1,32}'
bounded="^[+-]?(${digits})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?\$"
# A quantity whose type has validation rules of its own loses the pattern: the rules limit it as
# well, and refuse it with a message that people understand.
own='s/^( *)pattern:[^\n]*\n(\1x-kubernetes-int-or-string: true\n\1x-kubernetes-validations:)$/\2/'
for crd in charts/*/files/crds/*.yaml; do
  sed -E "/pattern: .*\[KMGTPE\]i/{N;N;${own}}" "$crd" |
    sed "s#pattern: ^(.*\[KMGTPE\]i.*#pattern: ${bounded}#" >"$crd.new"
  mv "$crd.new" "$crd"
done
