package notify

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ContentType is the media type of an encoded CloudEvent.
const ContentType = "application/cloudevents+json"

const (
	typePrefix = "eu.fluidos.broker."
	typeSuffix = ".v1"
)

// cloudEvent is a CloudEvent 1.0 in its structured JSON form. Sequence is the extension attribute
// of that name: sorted as strings, the values give the order of the journal.
type cloudEvent struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject"`
	Time        time.Time `json:"time"`
	Sequence    string    `json:"sequence"`
	ContentType string    `json:"datacontenttype"`
	Data        any       `json:"data"`
}

// Encode returns an event as a CloudEvent in JSON. Equal events have equal encodings. For the test
// of a channel, journalID is the ID of the test.
func Encode(e *Event, journalID string) ([]byte, error) {
	var data any = &e.Data
	if e.Record != nil {
		data = e.Record
	}
	out, err := json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: e.ID(journalID), Source: "/broker.fluidos.eu/journals/" + journalID,
		Type: typePrefix + string(e.Type) + typeSuffix, Subject: cmp.Or(e.Subject, journalID), Time: e.Data.Time.UTC(),
		Sequence: fmt.Sprintf("%020d.%05d", e.Data.Position, e.Index), ContentType: "application/json", Data: data,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the event %s: %w", e.ID(journalID), err)
	}
	return out, nil
}

// Headers of Standard Webhooks.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

const keyPrefix = "whsec_"

// minKey is the minimum length of a key in bytes, according to Standard Webhooks.
const minKey = 24

// ReadKeys returns the keys in the value of a Secret. The value contains one or more keys,
// separated by white space. Two keys allow receivers to change from one to the other without losing
// events.
func ReadKeys(value []byte) ([][]byte, error) {
	var out [][]byte
	for field := range strings.FieldsSeq(string(value)) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(field, keyPrefix))
		if err != nil || len(key) < minKey {
			return nil, fmt.Errorf("it has a key that is not whsec_ followed by at least %d bytes in base64: make one with: echo whsec_$(openssl rand -base64 32)", minKey)
		}
		out = append(out, key)
	}
	if len(out) == 0 {
		return nil, errors.New("it has no key: make one with: echo whsec_$(openssl rand -base64 32)")
	}
	return out, nil
}

// Sign returns the headers of Standard Webhooks for a message that is sent at the given time.
func Sign(keys [][]byte, id string, at time.Time, body []byte) map[string]string {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, key := range keys {
		sum := hmac.New(sha256.New, key)
		sum.Write([]byte(id + "." + timestamp + "."))
		sum.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	}
	return map[string]string{HeaderID: id, HeaderTimestamp: timestamp, HeaderSignature: strings.Join(signatures, " ")}
}
