package http

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	nethttp "net/http"
	"strconv"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// maxAnswer limits the size of the body of a response.
const maxAnswer = 16 << 20

// readAnswer decodes the body of a response, or returns the broker's error. It returns nil for a
// response without content. It ignores unknown fields, which a newer broker may send.
func readAnswer[T any](response *nethttp.Response) (*T, error) {
	defer func() { _ = response.Body.Close() }() // the body was read or is unusable, so an error does not matter
	broker := response.Request.URL.Scheme + "://" + response.Request.URL.Host
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%w: response of %s was cut off: %w", transport.ErrUnreachable, broker, err)
	}
	switch response.StatusCode {
	case nethttp.StatusNoContent:
		return nil, nil
	case nethttp.StatusOK, nethttp.StatusAccepted:
		answer := new(T)
		if err := json.Unmarshal(body, answer); err != nil {
			return nil, fmt.Errorf("%w: cannot decode the response of %s: %w", transport.ErrUnreachable, broker, err)
		}
		return answer, nil
	}
	refusal := problemOf(response, body)
	if refusal == nil {
		return nil, fmt.Errorf("%w: %s answered %q without a problem document: check that --broker-url is a broker's",
			transport.ErrUnreachable, broker, response.Status)
	}
	if response.StatusCode >= nethttp.StatusInternalServerError || refusal.Temporary() {
		return nil, fmt.Errorf("%w: %s: %w", transport.ErrUnreachable, broker, refusal)
	}
	return nil, refusal
}

// problemOf returns the broker's problem document, or nil if the response has none.
func problemOf(response *nethttp.Response, body []byte) *fault.Error {
	mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/problem+json" {
		return nil
	}
	var document v1.Problem
	if err := json.Unmarshal(body, &document); err != nil || document.Reason == "" {
		return nil
	}
	return &fault.Error{
		Reason:     fault.Reason(document.Reason),
		Detail:     document.Detail,
		RetryAfter: retryAfter(response),
		Candidates: document.Candidates,
		Rejected:   document.Rejected,
	}
}

// retryAfter returns 0 for the date format, which the broker never uses.
func retryAfter(response *nethttp.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
