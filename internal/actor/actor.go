// Package actor finds out which user wrote or deleted an object, and limits the length of the names
// that are sent to the broker.
//
// The API server tells only admission webhooks and policies who the caller is. Therefore a webhook
// writes the caller's name into annotations of the object when its spec is written, and records who
// deletes the object. An admission policy refuses every other change of these annotations, and
// every name but the caller's own.
package actor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

const (
	// MaxName is the maximum length in bytes of a name that the broker and the journal accept.
	MaxName = 256
	// deletionSlack is the largest accepted difference between the time in the annotation about a
	// deletion and the deletion timestamp. The API server waits for a webhook for at most 30 s.
	deletionSlack = time.Minute
	// hashLength is the length of the suffix of a shortened name: "~" and 8 digits of a hash.
	hashLength = 9
)

// Clean returns a user's name in the form in which it may be sent to the broker. It replaces
// unprintable characters by '?'. It shortens a name that is too long and appends a hash, so that
// different long names stay different.
func Clean(user string) string {
	name := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, user)
	if len(name) <= MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(user))
	cut := MaxName - hashLength
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "~" + hex.EncodeToString(sum[:])[:hashLength-1]
}

// Check returns an error if a name is too long or contains unprintable characters.
func Check(name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("the name has %d bytes: shorten it to %d", len(name), MaxName)
	}
	if Clean(name) != name {
		return fmt.Errorf("the name %q contains unprintable characters: replace them", name)
	}
	return nil
}

// Author returns the user who wrote the object's spec. It returns "" if the user is not known.
func Author(o metav1.Object) string {
	written := o.GetGeneration()
	if o.GetDeletionTimestamp() != nil {
		written-- // a deletion increments the generation
	}
	a := o.GetAnnotations()
	if a[brokerv1alpha1.RequestedByGenerationAnnotation] != strconv.FormatInt(written, 10) {
		return ""
	}
	return a[brokerv1alpha1.RequestedByAnnotation]
}

// Deleter returns the user who deleted the object. It returns "" if the user is not known, or if
// the object is not being deleted.
func Deleter(o metav1.Object) string {
	a, deleted := o.GetAnnotations(), o.GetDeletionTimestamp()
	at, err := time.Parse(time.RFC3339, a[brokerv1alpha1.DeletedByTimeAnnotation])
	if err != nil || deleted == nil || deleted.Sub(at).Abs() > deletionSlack {
		return ""
	}
	return a[brokerv1alpha1.DeletedByAnnotation]
}

// Stamp returns the annotations for an object that user writes. before holds the annotations of the
// stored object, and generation is its generation. They are nil and 0 for a new object. If
// specChanged is true, the annotations name user as the author of the spec.
func Stamp(annotations, before map[string]string, user string, generation int64, specChanged bool) map[string]string {
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	if specChanged {
		out[brokerv1alpha1.RequestedByAnnotation] = user
		out[brokerv1alpha1.RequestedByGenerationAnnotation] = strconv.FormatInt(generation+1, 10)
	} else {
		restore(out, before, brokerv1alpha1.RequestedByAnnotation, brokerv1alpha1.RequestedByGenerationAnnotation)
	}
	restore(out, before, brokerv1alpha1.DeletedByAnnotation, brokerv1alpha1.DeletedByTimeAnnotation)
	return out
}

// restore sets the annotations with the given keys to their values in before.
func restore(annotations, before map[string]string, keys ...string) {
	for _, key := range keys {
		if value, known := before[key]; known {
			annotations[key] = value
		} else {
			delete(annotations, key)
		}
	}
}

// Deletion returns the annotations which record that user deletes an object at the given time. It
// returns nil if the object already names this user with a time that differs by less than half of
// deletionSlack.
func Deletion(o metav1.Object, user string, at time.Time) map[string]string {
	a := o.GetAnnotations()
	recorded, err := time.Parse(time.RFC3339, a[brokerv1alpha1.DeletedByTimeAnnotation])
	if err == nil && a[brokerv1alpha1.DeletedByAnnotation] == user && at.Sub(recorded).Abs() < deletionSlack/2 {
		return nil
	}
	return map[string]string{
		brokerv1alpha1.DeletedByAnnotation:     user,
		brokerv1alpha1.DeletedByTimeAnnotation: at.UTC().Format(time.RFC3339),
	}
}
