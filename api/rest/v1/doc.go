// Package v1 holds the types, client and server of the broker's REST API. The
// source is openapi.yaml; everything else is generated from it by make generate.
package v1

import (
	_ "embed"
	"net/http"
	"strconv"
)

// CursorHeader is the header with the cursor of the last instructions that the caller received.
const CursorHeader = "Journal-Cursor"

// Minor is the minor version of the API in this build. It equals the minor version of the
// release: 1 for v0.1. Agents and brokers work together when theirs differ by at most one.
const Minor = 1

// MinorHeader is the header with the caller's Minor.
const MinorHeader = "Api-Minor"

// MinorOf returns the caller's minor version from MinorHeader, or 0 without a valid header.
func MinorOf(r *http.Request) int32 {
	minor, err := strconv.ParseInt(r.Header.Get(MinorHeader), 10, 32)
	if err != nil {
		return 0
	}
	return int32(minor)
}

// OpenAPI is the API description that the broker serves.
//
//go:embed openapi.yaml
var OpenAPI []byte
