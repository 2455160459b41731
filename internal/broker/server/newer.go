package server

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// explainNewerCaller returns a text for the refusal of a body that says what to do if the caller speaks a newer minor
// version than this broker; "" if it does not.
func (d *description) explainNewerCaller(minor int32) string {
	if minor <= d.minor {
		return ""
	}
	return fmt.Sprintf(" (the caller speaks v1.%d, this broker v1.%d: upgrade the broker, or leave out the new fields)", minor, d.minor)
}

// dropUnknown removes the fields from value that err reports as unknown. They must not reach the decoder, which
// matches names without regard to case: an unknown field could overwrite a validated one.
func dropUnknown(value any, err error) {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return
	}
	for _, cause := range invalid.Causes {
		dropUnknown(value, cause)
	}
	if unknown, ok := invalid.ErrorKind.(*kind.AdditionalProperties); ok {
		object, _ := elementAt(value, invalid.InstanceLocation).(map[string]any)
		for _, field := range unknown.Properties {
			delete(object, field)
		}
	}
}

// elementAt returns the element of value at a path of names and indexes, nil if there is none.
func elementAt(value any, path []string) any {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}
