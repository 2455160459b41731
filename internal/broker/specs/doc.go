// Package specs reads the specs of the broker's CRDs into the values with which the
// broker decides. Controllers use the result. Admission webhooks only report the
// error, before the object is stored.
package specs
