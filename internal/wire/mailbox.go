package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

const (
	idempotencyKeyHeader = "Idempotency-Key"
	contentTypeHeader    = "Content-Type"
	retryAfterHeader     = "Retry-After"
)

const (
	// Limits of the compressed body of a request and of an answer. A ClusterMailbox stores both as
	// text, which is a third longer, so that they fit together into one etcd object of 1.5 MiB.
	maxMailboxRequest = 384 << 10
	maxMailboxAnswer  = 672 << 10
	// maxOpened is more than the size of the largest body that the server accepts, 1 MiB.
	maxOpened = 1<<20 + 1
)

// PackRequest returns a request of the REST API as the spec of a ClusterMailbox. It reads the body
// to its end.
func PackRequest(r *http.Request) (brokerv1alpha1.ClusterMailboxSpec, error) {
	spec := brokerv1alpha1.ClusterMailboxSpec{
		Method: r.Method, Path: r.URL.RequestURI(), APIMinor: v1.MinorOf(r),
		IdempotencyKey: r.Header.Get(idempotencyKeyHeader), JournalCursor: r.Header.Get(v1.CursorHeader),
	}
	if r.Body == nil {
		return spec, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return spec, err
	}
	spec.Body, err = compressBody(body, maxMailboxRequest)
	return spec, err
}

// OpenRequest returns the request that PackRequest stored. The request knows the uncompressed length
// of its body, on which limits depend. OpenRequest cuts off a body that no operation accepts.
func OpenRequest(ctx context.Context, spec *brokerv1alpha1.ClusterMailboxSpec) (*http.Request, error) {
	var body []byte
	if spec.Body != "" {
		unfolding, err := uncompressBody(spec.Body)
		if err == nil {
			body, err = io.ReadAll(io.LimitReader(unfolding, maxOpened))
		}
		if err != nil {
			return nil, fmt.Errorf("spec.body: %w", err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, spec.Method, spec.Path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("spec.path: %w", err)
	}
	for header, value := range map[string]string{
		idempotencyKeyHeader: spec.IdempotencyKey, v1.CursorHeader: spec.JournalCursor,
	} {
		if value != "" {
			r.Header.Set(header, value)
		}
	}
	r.Header.Set(v1.MinorHeader, strconv.Itoa(int(spec.APIMinor)))
	if spec.Body != "" {
		r.Header.Set(contentTypeHeader, "application/json")
	}
	return r, nil
}

// PackAnswer returns an answer of the REST API as the status of a ClusterMailbox. It returns an
// error if the answer is too large.
func PackAnswer(code int, header http.Header, body []byte) (brokerv1alpha1.ClusterMailboxStatus, error) {
	packed, err := compressBody(body, maxMailboxAnswer)
	after, _ := strconv.ParseInt(header.Get(retryAfterHeader), 10, 32) // 0 if the header is missing
	return brokerv1alpha1.ClusterMailboxStatus{
		Code: int32(code), ContentType: header.Get(contentTypeHeader), RetryAfterSeconds: int32(after), Body: packed,
	}, err
}

// OpenAnswer returns the answer that PackAnswer stored, as the answer to r.
func OpenAnswer(r *http.Request, status *brokerv1alpha1.ClusterMailboxStatus) (*http.Response, error) {
	answer := &http.Response{
		StatusCode: int(status.Code), Status: fmt.Sprintf("%d %s", status.Code, http.StatusText(int(status.Code))),
		Header: http.Header{}, Body: http.NoBody, Request: r,
	}
	if status.ContentType != "" {
		answer.Header.Set(contentTypeHeader, status.ContentType)
	}
	if status.RetryAfterSeconds > 0 {
		answer.Header.Set(retryAfterHeader, strconv.Itoa(int(status.RetryAfterSeconds)))
	}
	if status.Body != "" {
		unfolding, err := uncompressBody(status.Body)
		if err != nil {
			return nil, fmt.Errorf("status.body: %w", err)
		}
		answer.Body = unfolding
	}
	return answer, nil
}

func uncompressBody(body string) (*gzip.Reader, error) {
	return gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(body)))
}

func compressBody(body []byte, most int) (string, error) {
	if len(body) == 0 {
		return "", nil
	}
	var packed bytes.Buffer
	folding := gzip.NewWriter(&packed)
	_, err := folding.Write(body)
	if err == nil {
		err = folding.Close()
	}
	if err != nil {
		panic(err) // writing to a buffer cannot fail
	}
	if packed.Len() > most {
		return "", fmt.Errorf("%d bytes, compressed %d, are more than the %d that a ClusterMailbox takes: use the http transport for a cluster with so many reservations",
			len(body), packed.Len(), most)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}
