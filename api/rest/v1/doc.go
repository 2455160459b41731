// Package v1 holds the types, client and server of the broker's REST API. They are generated from
// openapi.yaml by make generate, except the few declarations in doc.go and quote.go.
package v1

import (
	_ "embed"
	"net/http"
	"strconv"
)

// CursorHeader is the header in which an agent sends the cursor of the last instructions that it
// received. A cursor is a position in the broker's journal.
const CursorHeader = "Journal-Cursor"

// Minor is the minor version of the API in this build. It equals the minor version of the release:
// 1 for v0.1. An agent and a broker work together if their minor versions differ by at most one.
const Minor = 1

// MinorHeader is the header with the minor version of the caller's API, see Minor.
const MinorHeader = "Api-Minor"

// MinorOf returns the minor version in the MinorHeader of a request. It returns 0 if the header is
// missing or invalid.
func MinorOf(r *http.Request) int32 {
	minor, err := strconv.ParseInt(r.Header.Get(MinorHeader), 10, 32)
	if err != nil {
		return 0
	}
	return int32(minor)
}

// OpenAPI is the text of openapi.yaml. The broker serves it to clients.
//
//go:embed openapi.yaml
var OpenAPI []byte
