package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	nethttp "net/http"
	"net/url"
	"strconv"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/transport"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 16 << 20

// read takes an answer. Fields that it does not know are those of a newer broker
// and are passed over.
func read[T any](response *nethttp.Response) (*T, error) {
	defer func() { _ = response.Body.Close() }() // read to its end, or of no use
	broker := response.Request.URL.Scheme + "://" + response.Request.URL.Host
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%w: answer of %s was cut off: %w", transport.ErrUnreachable, broker, err)
	}
	switch response.StatusCode {
	case nethttp.StatusNoContent:
		return nil, nil
	case nethttp.StatusOK, nethttp.StatusAccepted:
		answer := new(T)
		if err := json.Unmarshal(body, answer); err != nil {
			return nil, fmt.Errorf("%w: answer of %s cannot be read: %w", transport.ErrUnreachable, broker, err)
		}
		return answer, nil
	}
	refusal := problem(response, body)
	if refusal == nil {
		return nil, fmt.Errorf("%w: %s answered %q without a problem document: is that a broker? Check --broker-url",
			transport.ErrUnreachable, broker, response.Status)
	}
	if response.StatusCode >= nethttp.StatusInternalServerError || refusal.Temporary() {
		return nil, fmt.Errorf("%w: %s: %w", transport.ErrUnreachable, broker, refusal)
	}
	return nil, refusal
}

// problem is nil where the answer holds no problem document of a broker.
func problem(response *nethttp.Response, body []byte) *fault.Error {
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

// retryAfter is 0 where the header is absent or, as the broker never writes it, a
// date.
func retryAfter(response *nethttp.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// withoutURL drops the request's URL: the error within names the replica.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
