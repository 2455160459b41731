package v1

//go:generate go run -modfile=../../../hack/tools/go.mod github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen -config oapi-codegen.yaml -o zz_generated.rest.go openapi.yaml
