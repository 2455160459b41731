package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"
)

// RequestNodeLabels returns the labels by which pods select the virtual nodes of a
// ResourceRequest.
func RequestNodeLabels(namespace, name string) map[string]string {
	return map[string]string{RequestNamespaceLabel: namespace, RequestLabel: requestLabelValue(name)}
}

// requestLabelValue returns a request's name if it is short enough for a label. A longer name is
// cut, and the beginning of its hash is appended to keep it unique.
func requestLabelValue(name string) string {
	const hashed = 8
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:validation.LabelValueMaxLength-hashed-1] + "-" + hex.EncodeToString(sum[:])[:hashed]
}
