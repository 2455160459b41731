package configuration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSize is the maximum size of a file, in bytes. A ConfigMap has the same limit.
const maxSize = 1 << 20

func decodeFile(text []byte) (*file, error) {
	f := &file{}
	err := decodeInto(text, f)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the file is empty: begin with apiVersion: %s and kind: %s", APIVersion, Kind)
	case err != nil:
		return nil, err
	case f.APIVersion != APIVersion:
		return nil, fmt.Errorf("apiVersion: %.80q is not supported by this agent: use %s", f.APIVersion, APIVersion)
	case f.Kind != Kind:
		return nil, fmt.Errorf("kind: %.80q is not the kind of an agent's configuration: use %s", f.Kind, Kind)
	}
	return f, nil
}

// decodeInto decodes a file with one YAML document. It returns io.EOF if the file is empty. It
// fails for unknown and duplicate keys, and its errors name their lines. It also fails for a second
// document and for more than maxSize bytes.
func decodeInto(text []byte, out any) error {
	if len(text) > maxSize {
		return fmt.Errorf("%d bytes exceed the limit of %d for a configuration", len(text), maxSize)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	err := decoder.Decode(out)
	if errors.Is(err, io.EOF) {
		return err
	}
	if err != nil {
		return rewordYAMLError(err)
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return errors.New("the file has more than one document: keep one, without --- after it")
	}
	return nil
}

var (
	unknownKey   = regexp.MustCompile(`^(line \d+): field (.*) not found in type \S+$`)
	duplicateKey = regexp.MustCompile(`^(line \d+): mapping key (".*") already defined at (line \d+)$`)
	otherShape   = regexp.MustCompile("^(line \\d+): cannot unmarshal !!\\w+ ?(`.*`)? ?into (\\S+)$")
)

// rewordYAMLError returns the decoder's errors without the names of Go types, which mean nothing to
// users.
func rewordYAMLError(err error) error {
	wrong, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	all := make([]error, len(wrong.Errors))
	for i, text := range wrong.Errors {
		if m := unknownKey.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("%s: unknown key %.80q: correct or remove it, docs/configuration.md lists all", m[1], m[2])
		} else if m := duplicateKey.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("%s: key %.80s is already set in %s: keep one", m[1], m[2], m[3])
		} else if m := otherShape.FindStringSubmatch(text); m != nil {
			want := "keys with values"
			if m[3] == "string" {
				want = "one value"
			}
			text = fmt.Sprintf("%s: %s belong%s here: see docs/configuration.md", m[1], want, map[bool]string{true: "s"}[m[3] == "string"])
		}
		all[i] = errors.New(text)
	}
	return errors.Join(all...)
}
