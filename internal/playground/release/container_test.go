package release

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// inside returns the environment in which container c starts, in a pod with two volumes and two
// ports.
func inside(c corev1.Container) surroundings {
	c.VolumeMounts = []corev1.VolumeMount{{Name: "tls", MountPath: "/etc/broker/tls"}, {Name: "scratch", MountPath: "/tmp"}}
	return surroundings{
		pod: "broker-0", namespace: "ns",
		spec:     &corev1.PodSpec{ServiceAccountName: "account", Containers: []corev1.Container{c}},
		ports:    map[int32]int{8443: 20001, 10250: 20002},
		folders:  map[string]string{"tls": "/state/tls", "scratch": "/state/scratch"},
		services: map[string]map[int32]int{"broker": {8443: 20003}},
		value: func(kind, name, key string) (string, bool) {
			return "s3cret", kind == "Secret" && name == "there" && key == "token"
		},
	}
}

func TestArguments(t *testing.T) {
	tests := map[string]struct {
		arg, want, problem string
	}{
		"a variable":                                 {arg: "--namespace=$(POD_NAMESPACE)", want: "--namespace=ns"},
		"an unknown variable":                        {arg: "--token=$(NOWHERE)", want: "--token=$(NOWHERE)"},
		"an escaped variable":                        {arg: "$$(POD_NAMESPACE)", want: "$(POD_NAMESPACE)"},
		"an address of all interfaces":               {arg: "--bind-address=:8443", want: "--bind-address=127.0.0.1:20001"},
		"0.0.0.0 as address":                         {arg: "--bind-address=0.0.0.0:8443", want: "--bind-address=127.0.0.1:20001"},
		"all interfaces in IPv6":                     {arg: "--bind-address=[::]:8443", want: "--bind-address=127.0.0.1:20001"},
		"a foreign address":                          {arg: "--broker-url=https://broker:8443", want: "--broker-url=https://broker:8443"},
		"an address of a Service":                    {arg: "--url=https://broker.ns.svc:8443", want: "--url=https://127.0.0.1:20003"},
		"a Service of another namespace":             {arg: "--url=https://broker.other.svc:8443", want: "--url=https://broker.other.svc:8443"},
		"a port that the Service lacks":              {arg: "--url=https://broker.ns.svc:8444", want: "--url=https://broker.ns.svc:8444"},
		"a port that the container does not declare": {arg: "--bind-address=:8444", problem: "declares no port 8444"},
		"a disabled address":                         {arg: "--metrics-bind-address=0", want: "--metrics-bind-address=0"},
		"a port number":                              {arg: "--secure-port=10250", want: "--secure-port=20002"},
		"a number that is not a port":                {arg: "--workers=10250", want: "--workers=10250"},
		"the folder of a volume":                     {arg: "--cert-path=/etc/broker/tls", want: "--cert-path=/state/tls"},
		"a file of a volume":                         {arg: "--cert=/etc/broker/tls/tls.crt", want: "--cert=/state/tls/tls.crt"},
		"a folder with the same prefix":              {arg: "--cert-path=/etc/broker/tls-old", want: "--cert-path=/etc/broker/tls-old"},
		"a path that stands alone":                   {arg: "/tmp", want: "/state/scratch"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := corev1.Container{Name: "broker", Args: []string{test.arg}}
			got, err := inside(c).arguments(&c, map[string]string{"POD_NAMESPACE": "ns"})
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("got %q and error %v, want an error with %q", got, err, test.problem)
				}
				return
			}
			if err != nil || len(got) != 1 || got[0] != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// The pod of "helm test" gets the addresses of the agent only to check them.
func TestAddressOfAPodWithoutPortsIsUnchanged(t *testing.T) {
	c := corev1.Container{Name: "check", Args: []string{"--webhook-bind-address=:9443"}}
	s := inside(c)
	s.ports = nil
	got, err := s.arguments(&c, nil)
	runtest.Check(t, err)
	if diff := cmp.Diff(c.Args, got); diff != "" {
		t.Errorf("arguments (-chart +process):\n%s", diff)
	}
}

func TestEnvironment(t *testing.T) {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	secret := func(name string, optional bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "token", Optional: &optional,
		}}
	}
	tests := map[string]struct {
		env     []corev1.EnvVar
		want    []string
		problem string
	}{
		"what the pod is": {
			env: []corev1.EnvVar{
				{Name: "NAME", ValueFrom: field("metadata.name")}, {Name: "NS", ValueFrom: field("metadata.namespace")},
				{Name: "IP", ValueFrom: field("status.podIP")}, {Name: "SA", ValueFrom: field("spec.serviceAccountName")},
			},
			want: []string{"NAME=broker-0", "NS=ns", "IP=127.0.0.1", "SA=account"},
		},
		"a variable in a later one": {
			env:  []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)2"}},
			want: []string{"A=1", "B=12"},
		},
		"a path in a volume":     {env: []corev1.EnvVar{{Name: "DIR", Value: "/tmp/x"}}, want: []string{"DIR=/state/scratch/x"}},
		"a key of a Secret":      {env: []corev1.EnvVar{{Name: "T", ValueFrom: secret("there", false)}}, want: []string{"T=s3cret"}},
		"a missing optional key": {env: []corev1.EnvVar{{Name: "T", ValueFrom: secret("away", true)}}},
		"a missing required key": {env: []corev1.EnvVar{{Name: "T", ValueFrom: secret("away", false)}}, problem: `Secret "away" has no key "token"`},
		"an unknown field":       {env: []corev1.EnvVar{{Name: "T", ValueFrom: field("spec.nodeName")}}, problem: `field "spec.nodeName"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := corev1.Container{Name: "broker", Env: test.env}
			got, _, err := inside(c).environment(&c)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("got error %v, want one with %q", err, test.problem)
				}
				return
			}
			runtest.Check(t, err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}
