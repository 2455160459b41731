package release

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// surroundings are what a container finds when it starts.
type surroundings struct {
	pod       string
	namespace string
	spec      *corev1.PodSpec
	// ports are the loopback ports of the container's ports, by number.
	ports map[int32]int
	// folders of the pod's volumes, by name.
	folders map[string]string
	// services of the namespace: their loopback ports, by name and number.
	services map[string]map[int32]int
	// value reads a key of a Secret or ConfigMap; false if there is none.
	value func(kind, name, key string) (string, bool)
}

// address is where a pod is found; there is one network, this machine.
const address = "127.0.0.1"

// environment of a container in the order of the manifest.
func (s surroundings) environment(c *corev1.Container) ([]string, map[string]string, error) {
	known := map[string]string{}
	var env []string
	for _, e := range c.Env {
		value, set, err := s.variable(e, known)
		if err != nil {
			return nil, nil, fmt.Errorf("variable %q: %w", e.Name, err)
		}
		if set {
			known[e.Name] = value
			env = append(env, e.Name+"="+value)
		}
	}
	if len(c.EnvFrom) > 0 {
		return nil, nil, fmt.Errorf("container %q takes its environment from whole objects, which is not done here", c.Name)
	}
	return env, known, nil
}

func (s surroundings) variable(e corev1.EnvVar, known map[string]string) (value string, set bool, err error) {
	from := e.ValueFrom
	switch {
	case from == nil:
		return s.located(expand(e.Value, known)), true, nil
	case from.FieldRef != nil:
		value, err = s.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		return s.key("Secret", ref.Name, ref.Key, ref.Optional)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		return s.key("ConfigMap", ref.Name, ref.Key, ref.Optional)
	default:
		return "", false, fmt.Errorf("its source is of a kind that is not known here")
	}
}

func (s surroundings) key(kind, name, key string, optional *bool) (string, bool, error) {
	value, ok := s.value(kind, name, key)
	if !ok && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("%s %q has no key %q", kind, name, key)
	}
	return value, ok, nil
}

func (s surroundings) field(name string) (string, error) {
	switch name {
	case "metadata.name":
		return s.pod, nil
	case "metadata.namespace":
		return s.namespace, nil
	case "status.podIP", "status.hostIP":
		return address, nil
	case "spec.serviceAccountName":
		return s.spec.ServiceAccountName, nil
	default:
		return "", fmt.Errorf("field %q of a pod is not known here", name)
	}
}

// variables finds a variable in an argument: $(NAME), or $$(NAME) for the text itself.
var variables = regexp.MustCompile(`\$?\$\([A-Za-z_][A-Za-z0-9_.-]*\)`)

// expand fills variables as a kubelet does: unknown ones stay as they are.
func expand(text string, known map[string]string) string {
	return variables.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		if value, ok := known[found[2:len(found)-1]]; ok {
			return value
		}
		return found
	})
}

// arguments of a container, with its addresses and folders.
func (s surroundings) arguments(c *corev1.Container, known map[string]string) ([]string, error) {
	var args []string
	for _, arg := range slices.Concat(c.Command, c.Args) {
		located, err := s.listening(s.routed(s.located(expand(arg, known))))
		if err != nil {
			return nil, fmt.Errorf("container %q: %w", c.Name, err)
		}
		args = append(args, located)
	}
	return args, nil
}

// located replaces the path of a mounted volume by its folder, as a whole or after
// an equals sign.
func (s surroundings) located(text string) string {
	flag, value, isFlag := strings.Cut(text, "=")
	if !isFlag {
		flag, value = "", text
	}
	for _, c := range s.spec.Containers {
		for _, m := range c.VolumeMounts {
			if value != m.MountPath && !strings.HasPrefix(value, m.MountPath+"/") {
				continue
			}
			moved := filepath.Join(s.folders[m.Name], strings.TrimPrefix(path.Clean(value), path.Clean(m.MountPath)))
			if isFlag {
				return flag + "=" + moved
			}
			return moved
		}
	}
	return text
}

// inCluster finds the address of a Service by its name in the cluster.
var inCluster = regexp.MustCompile(`([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\.cluster\.local)?:(\d+)`)

// routed replaces addresses of the namespace's Services by theirs on this machine.
func (s surroundings) routed(arg string) string {
	return inCluster.ReplaceAllStringFunc(arg, func(found string) string {
		match := inCluster.FindStringSubmatch(found)
		number, err := strconv.ParseInt(match[3], 10, 32)
		if err != nil || match[2] != s.namespace {
			return found
		}
		if port, ok := s.services[match[1]][int32(number)]; ok {
			return fmt.Sprintf("%s:%d", address, port)
		}
		return found
	})
}

// listens finds an address to listen on in an argument: every address of a port
// (":8443"), or a port by number (--secure-port=10250).
var listens = regexp.MustCompile(`^(--[a-z-]+=)(?:(?:0\.0\.0\.0|\[::\])?:(\d+)|(\d+))$`)

func (s surroundings) listening(arg string) (string, error) {
	match := listens.FindStringSubmatch(arg)
	if match == nil || match[3] != "" && !strings.HasSuffix(match[1], "-port=") {
		return arg, nil
	}
	number, err := strconv.ParseInt(match[2]+match[3], 10, 32)
	if err != nil {
		return "", fmt.Errorf("%s: %w", arg, err)
	}
	port, ok := s.ports[int32(number)]
	switch {
	case !ok:
		return "", fmt.Errorf("%s: the container declares no port %d", arg, number)
	case match[3] != "":
		return fmt.Sprintf("%s%d", match[1], port), nil
	default:
		return fmt.Sprintf("%s%s:%d", match[1], address, port), nil
	}
}
