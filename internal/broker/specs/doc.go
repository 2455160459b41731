// Package specs reads the specs of the broker's CRDs into the values that the broker
// decides with. Controllers act on the result; admission webhooks report the error
// before the object is stored.
package specs
