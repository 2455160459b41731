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

// surroundings holds everything outside a container that its environment and arguments can refer to.
type surroundings struct {
	pod       string
	namespace string
	spec      *corev1.PodSpec
	// ports maps the container's ports to loopback ports.
	ports map[int32]int
	// folders maps the names of the pod's volumes to folders.
	folders map[string]string
	// services maps the names and port numbers of the namespace's Services to loopback ports.
	services map[string]map[int32]int
	// value returns the value of a key in a Secret or ConfigMap. It returns false if there is none.
	value func(kind, name, key string) (string, bool)
}

// address is the IP address of every pod, because all pods run on this machine.
const address = "127.0.0.1"

// environment returns the environment of a container: as a list in the order of the manifest, and as a map.
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
		return nil, nil, fmt.Errorf("container %q takes its environment from whole objects, which is not supported", c.Name)
	}
	return env, known, nil
}

func (s surroundings) variable(e corev1.EnvVar, known map[string]string) (value string, set bool, err error) {
	from := e.ValueFrom
	switch {
	case from == nil:
		return s.localPath(expandVariables(e.Value, known)), true, nil
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
		return "", false, fmt.Errorf("its source has an unknown kind")
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
		return "", fmt.Errorf("field %q of a pod is not supported", name)
	}
}

// variables matches a variable in an argument, $(NAME). It also matches an escaped variable, $$(NAME).
var variables = regexp.MustCompile(`\$?\$\([A-Za-z_][A-Za-z0-9_.-]*\)`)

// expandVariables replaces variables by their values, as a kubelet does. It leaves unknown variables unchanged.
func expandVariables(text string, known map[string]string) string {
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

// arguments returns the arguments of a container, in which cluster addresses and paths of volumes are replaced by
// local ones.
func (s surroundings) arguments(c *corev1.Container, known map[string]string) ([]string, error) {
	var args []string
	for _, arg := range slices.Concat(c.Command, c.Args) {
		located, err := s.localListener(s.localAddresses(s.localPath(expandVariables(arg, known))))
		if err != nil {
			return nil, fmt.Errorf("container %q: %w", c.Name, err)
		}
		args = append(args, located)
	}
	return args, nil
}

// localPath replaces the path of a mounted volume by the local folder. The path may be the whole text, or follow an
// equals sign. Any other text is returned unchanged.
func (s surroundings) localPath(text string) string {
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

// inCluster matches the DNS name of a Service with a port.
var inCluster = regexp.MustCompile(`([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\.cluster\.local)?:(\d+)`)

// localAddresses replaces the addresses of the namespace's Services by loopback addresses. It leaves other addresses
// unchanged.
func (s surroundings) localAddresses(arg string) string {
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

// listens matches an argument with an address to listen on: an address without a host (":8443"), or a port number
// (--secure-port=10250).
var listens = regexp.MustCompile(`^(--[a-z-]+=)(?:(?:0\.0\.0\.0|\[::\])?:(\d+)|(\d+))$`)

func (s surroundings) localListener(arg string) (string, error) {
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
	case len(s.ports) == 0: // the pod listens nowhere, like that of "agent check", which only checks this flag
		return arg, nil
	case !ok:
		return "", fmt.Errorf("%s: the container declares no port %d", arg, number)
	case match[3] != "":
		return fmt.Sprintf("%s%d", match[1], port), nil
	default:
		return fmt.Sprintf("%s%s:%d", match[1], address, port), nil
	}
}
