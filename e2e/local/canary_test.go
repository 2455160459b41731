package local

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
)

// canaries are the contents of Secrets by origin: private keys, nonces and kubeconfigs, in every encoding in which
// they could leak.
type canaries map[string][]string

// gather reads all Secrets of all clusters, during a handshake or after it.
func (c canaries) gather(t *testing.T, env *Environment) {
	t.Helper()
	for _, cluster := range clusters(env) {
		secrets := &corev1.SecretList{}
		check(t, cluster.List(t.Context(), secrets))
		for i := range secrets.Items {
			c.take(&secrets.Items[i])
		}
	}
	for _, needed := range []string{"authentication-keys/privateKey", "liqo-nonce/nonce", "kubeconfig-controlplane-paris/kubeconfig", "agent-identity/tls.key"} {
		if len(c[needed]) == 0 {
			t.Fatalf("no Secret has %s", needed)
		}
	}
}

func clusters(env *Environment) []*e2e.Cluster {
	all := []*e2e.Cluster{env.Broker}
	for _, c := range env.Members {
		all = append(all, c)
	}
	return all
}

// public are the PEM types that are not secret.
var public = []string{"CERTIFICATE", "CERTIFICATE REQUEST", "PUBLIC KEY"}

func (c canaries) take(s *corev1.Secret) {
	for key, value := range s.Data {
		block, _ := pem.Decode(value)
		if block != nil && slices.Contains(public, block.Type) || len(value) < 32 {
			continue // public, or too short to be recognized
		}
		from := s.Name + "/" + key
		c[from] = append(c[from], string(value), base64.StdEncoding.EncodeToString(value))
		if block != nil {
			// One line of the body suffices to find it in any quoting.
			body := base64.StdEncoding.EncodeToString(block.Bytes)
			c[from] = append(c[from], body[:min(len(body), 64)])
		}
	}
}

// in returns the origin of a canary that a text contains, "" if there is none.
func (c canaries) in(text []byte) string {
	for from, forms := range c {
		for _, form := range forms {
			if bytes.Contains(text, []byte(form)) {
				return from
			}
		}
	}
	return ""
}

func (c canaries) want(t *testing.T, where string, text []byte) {
	t.Helper()
	if from := c.in(text); from != "" {
		t.Errorf("%s holds %s of a Secret", where, from)
	}
}

// wantInNoObject fails the test if an object in any cluster contains a canary, including Events, but not Secrets.
func (c canaries) wantInNoObject(t *testing.T, env *Environment) {
	t.Helper()
	for _, cluster := range clusters(env) {
		objects, err := cluster.Objects(t.Context())
		check(t, err)
		for i := range objects {
			o := &objects[i]
			if o.GetKind() == "Secret" && o.GroupVersionKind().Group == "" {
				continue
			}
			text, err := o.MarshalJSON()
			check(t, err)
			c.want(t, fmt.Sprintf("%s: %s %s", cluster.Name, o.GetKind(), client.ObjectKeyFromObject(o)), text)
		}
	}
}

// commandLine is the line that the playground writes into a log before the program starts.
var commandLine = regexp.MustCompile(`(?m)^### .*$`)

// wantNotLeaked fails the test if the logs or metrics of the broker or of an agent, or the broker's answers, contain a
// canary.
func (c canaries) wantNotLeaked(t *testing.T, env *Environment) {
	t.Helper()
	for _, name := range env.Playground.Names() {
		for _, pod := range env.Product.Pods(name) {
			log, err := os.ReadFile(pod.Process().Log())
			check(t, err)
			c.want(t, "the log of "+name, commandLine.ReplaceAll(log, nil))
		}
		c.want(t, "metrics of "+name, metricsOf(t, env, name))
	}
	for id := range env.Members {
		for what, answer := range answersTo(t, env, id) {
			text, err := json.Marshal(answer)
			check(t, err)
			c.want(t, fmt.Sprintf("the broker's answer to %s: %s", id, what), text)
		}
	}
}

// metricsOf scrapes the metrics of the broker or an agent. It tries again until it gets some.
func metricsOf(t *testing.T, env *Environment, name string) []byte {
	t.Helper()
	chart := "agent"
	if name == playground.BrokerCluster {
		chart = name
	}
	port, err := release.ServicePort(env.Playground.Clusters[name].ControlPlane, chart, chart+"-metrics", "metrics")
	check(t, err)
	var text []byte
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close() //nolint:errcheck // the body was read to its end, so an error does not matter
		text, err = io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK || len(text) == 0 {
			return "metrics of " + name + ": " + response.Status, err
		}
		return "", err
	}))
	return text
}

// answersTo returns every kind of answer of the broker to a cluster that contains information.
func answersTo(t *testing.T, env *Environment, id string) map[string]any {
	t.Helper()
	tr := asCluster(t, env, id)
	pong, err := tr.Ping(t.Context())
	check(t, err)
	instructions, err := tr.FetchInstructions(t.Context(), "", 0)
	check(t, err)
	messages, err := tr.ReceiveMessages(t.Context(), "", 0)
	check(t, err)
	return map[string]any{"ping": pong, "instructions": instructions, "messages": messages}
}
