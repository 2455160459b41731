package release

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// contents maps the path of a file in a volume to its content.
type contents map[string][]byte

// objects gives access to Secrets and ConfigMaps by name.
type objects interface {
	data(kind, name string) (map[string][]byte, bool)
}

// contentsOf returns the current content of a volume. If a source is missing, the error names it, as the event of a
// pod that waits for its volumes would.
func contentsOf(v *corev1.Volume, from objects) (contents, error) {
	files := contents{}
	var err error
	switch {
	case v.EmptyDir != nil:
	case v.Secret != nil:
		err = files.add(from, "Secret", v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	case v.ConfigMap != nil:
		err = files.add(from, "ConfigMap", v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if err = files.project(from, &v.Projected.Sources[i]); err != nil {
				break
			}
		}
	default:
		err = fmt.Errorf("its kind is not supported")
	}
	if err != nil {
		return nil, fmt.Errorf("volume %q: %w", v.Name, err)
	}
	return files, nil
}

func (f contents) project(from objects, p *corev1.VolumeProjection) error {
	switch {
	case p.Secret != nil:
		return f.add(from, "Secret", p.Secret.Name, p.Secret.Items, p.Secret.Optional)
	case p.ConfigMap != nil:
		return f.add(from, "ConfigMap", p.ConfigMap.Name, p.ConfigMap.Items, p.ConfigMap.Optional)
	default:
		return fmt.Errorf("one of its sources is not supported")
	}
}

func (f contents) add(from objects, kind, name string, items []corev1.KeyToPath, optional *bool) error {
	may := optional != nil && *optional
	data, ok := from.data(kind, name)
	if !ok {
		if may {
			return nil
		}
		return fmt.Errorf("%s %q is missing", kind, name)
	}
	if len(items) == 0 {
		maps.Copy(f, data)
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok && !may {
			return fmt.Errorf("%s %q has no key %q", kind, name, item.Key)
		}
		if ok {
			f[item.Path] = value
		}
	}
	return nil
}

// hasSource reports whether the content of a volume comes from objects.
func hasSource(v *corev1.Volume) bool { return v.EmptyDir == nil }
