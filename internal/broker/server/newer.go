package server

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// explain is what to do about a body that was refused to a caller of a minor version,
// where that is a newer one.
func (d *description) explain(minor int32) string {
	if minor <= d.minor {
		return ""
	}
	return fmt.Sprintf(" (the caller speaks v1.%d, this broker v1.%d: upgrade the broker, or leave out what is new)", minor, d.minor)
}

// drop takes the fields out of value that err calls unknown. They must not reach the
// decoder, which would take one that differs in case alone for one that was checked.
func drop(value any, err error) {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return
	}
	for _, cause := range invalid.Causes {
		drop(value, cause)
	}
	if unknown, ok := invalid.ErrorKind.(*kind.AdditionalProperties); ok {
		object, _ := part(value, invalid.InstanceLocation).(map[string]any)
		for _, field := range unknown.Properties {
			delete(object, field)
		}
	}
}

// part is what stands in value at a path of names and indexes, nil if nothing does.
func part(value any, path []string) any {
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
