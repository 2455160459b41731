package release

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// table holds objects by kind and name.
type table map[string]map[string][]byte

func (t table) data(kind, name string) (map[string][]byte, bool) {
	data, ok := t[kind+" "+name]
	return data, ok
}

func TestContentsOf(t *testing.T) {
	from := table{
		"Secret tls":      {"tls.crt": []byte("cert"), "tls.key": []byte("key")},
		"Secret ca":       {"tls.crt": []byte("root"), "tls.key": []byte("never to be mounted")},
		"ConfigMap roots": {"agents": []byte("second root")},
	}
	yes := true
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	tests := map[string]struct {
		source  corev1.VolumeSource
		want    contents
		problem string
	}{
		"all keys of a Secret": {
			source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}},
			want:   contents{"tls.crt": []byte("cert"), "tls.key": []byte("key")},
		},
		"some keys of several objects": {
			source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: local("tls")}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: local("ca"), Items: []corev1.KeyToPath{{Key: "tls.crt", Path: "agents-ca.crt"}}}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("roots"), Items: []corev1.KeyToPath{{Key: "agents", Path: "more.crt"}}}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("away"), Optional: &yes}},
			}}},
			want: contents{
				"tls.crt": []byte("cert"), "tls.key": []byte("key"), "agents-ca.crt": []byte("root"), "more.crt": []byte("second root"),
			},
		},
		"an empty folder": {source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, want: contents{}},
		"a missing optional Secret": {
			source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "away", Optional: &yes}}, want: contents{},
		},
		"a missing Secret": {
			source:  corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "away"}},
			problem: `volume "v": Secret "away" is missing`,
		},
		"a missing key": {
			source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: local("roots"), Items: []corev1.KeyToPath{{Key: "servers", Path: "x"}},
			}},
			problem: `ConfigMap "roots" has no key "servers"`,
		},
		"an unsupported kind of volume": {
			source:  corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
			problem: "its kind is not supported",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := contentsOf(&corev1.Volume{Name: "v", VolumeSource: test.source}, from)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("got error %v, want one with %q", err, test.problem)
				}
				return
			}
			runtest.Check(t, err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}
