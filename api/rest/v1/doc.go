// Package v1 holds the types, client and server of the broker's REST API. The
// source is openapi.yaml; everything else is generated from it by make generate.
package v1

import (
	_ "embed"
	"net/http"
	"strconv"
)

// CursorHeader names the header in which a caller shows the cursor of the last
// instructions that it got.
const CursorHeader = "Journal-Cursor"

// Minor is the minor version of the API that this build speaks: that of its release, so
// 1 for v0.1. Agents and brokers work together while theirs are at most one apart.
const Minor = 1

// MinorHeader names the header in which a caller tells its Minor.
const MinorHeader = "Api-Minor"

// MinorOf is the minor version that the caller of a request speaks, 0 if it does not say.
func MinorOf(r *http.Request) int32 {
	minor, err := strconv.ParseInt(r.Header.Get(MinorHeader), 10, 32)
	if err != nil {
		return 0
	}
	return int32(minor)
}

// OpenAPI is the description of the API as the broker serves it.
//
//go:embed openapi.yaml
var OpenAPI []byte
