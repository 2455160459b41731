package app

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

var signedAt = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// signReceipt returns a receipt of placement res-paidpaid00-1, signed with a certificate of the CA.
func signReceipt(t *testing.T, ca *pkitest.Authority) *brokerv1alpha1.Receipt {
	t.Helper()
	return signReceiptAt(t, ca, receipt.Place{ID: "7d3f", Position: 42, Hash: strings.Repeat("ab", 32)}, signedAt)
}

// signReceiptAt returns the same receipt as signReceipt, but for the given place in the journal and time of the
// signature.
func signReceiptAt(t *testing.T, ca *pkitest.Authority, place receipt.Place, now time.Time) *brokerv1alpha1.Receipt {
	t.Helper()
	credentials := &pki.Credentials{Certificate: pkitest.Parse(t)(ca.IssueServer([]string{"broker.example.com"}, nil))}
	signed, err := receipt.NewSigner(func() (*pki.Credentials, error) { return credentials, nil }).Sign(&receipt.Agreement{
		Reservation: "res-paidpaid00", Placement: 1, Requester: "rome", Provider: "paris", State: receipt.Held,
		Resources: map[string]string{"cpu": "4", "memory": "8Gi"},
		Price:     &receipt.Price{Currency: "EUR", PerHour: "0.8", Rates: map[string]string{"cpu": "0.2", "memory": "0"}},
		HeldSince: signedAt, Until: receipt.Instant(signedAt.Add(2 * time.Hour)),
	}, place, now)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// createPaid creates instructions of res-paidpaid00-1 with a receipt, and of res-paidpaid11-1 without one, in a real
// cluster, and a request that res-paidpaid00 serves. They are deleted after the test.
func createPaid(t *testing.T, kubeconfig string, signed *brokerv1alpha1.Receipt) {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: "rome"}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := agentv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
	paid := &agentv1alpha1.ReservationInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-paidpaid00-1"},
		Spec:       agentv1alpha1.ReservationInstructionSpec{ReservationName: "res-paidpaid00", Placement: 1, TargetClusterID: "paris", Resources: amounts, Receipt: signed},
	}
	doubtful := &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-paidpaid11-1"},
		Spec:       agentv1alpha1.ProviderInstructionSpec{ReservationName: "res-paidpaid11", Placement: 1, RequesterClusterID: "oslo", Resources: amounts, ReceiptProblem: "the broker sent no receipt"},
	}
	request := &agentv1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "paid"},
		Spec:       agentv1alpha1.ResourceRequestSpec{CPU: resource.NewQuantity(4, ""), Memory: resource.NewQuantity(8<<30, resource.BinarySI)},
	}
	for _, o := range []client.Object{paid, doubtful, request} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Delete(context.Background(), o); err != nil {
				t.Error(err)
			}
		})
	}
	request.Status.ReservationName = "res-paidpaid00"
	if err := c.Status().Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

const paidText = `PLACEMENT      res-paidpaid00-1
requester      rome
provider       paris
state          Held
resources      cpu 4, memory 8Gi
price          0.8 EUR per hour (cpu 0.2, memory 0)
held since     2026-03-01T12:00:00Z
until          2026-03-01T14:00:00Z
signed         2026-03-01T12:00:00Z
journal        7d3f, record 42, hash abababababababababababababababababababababababababababababababab
kept in        FROM
`

// testReceipts reads a receipt from a real cluster, and verifies it without a cluster.
func testReceipts(t *testing.T, kubeconfig string) {
	ca := pkitest.New(t, "servers", signedAt)
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	trusted, foreign := write("ca.crt", ca.CertPEM()), write("foreign.crt", pkitest.New(t, "others", signedAt).CertPEM())
	genuine := signReceipt(t, ca)
	createPaid(t, kubeconfig, genuine)
	here := []string{"--kubeconfig", kubeconfig, "--context", "rome"}
	show := func(t *testing.T, args ...string) (int, string, string) {
		t.Helper()
		return run(t, append([]string{"audit", "receipt"}, args...)...)
	}
	for _, name := range []string{"res-paidpaid00-1", "res-paidpaid00", "paid"} {
		code, out, talk := show(t, append(here, name)...)
		want := strings.ReplaceAll(paidText, "FROM", "ReservationInstruction default/res-paidpaid00-1") + "NOT VERIFIED   use --verify --ca-file\n"
		if diff := cmp.Diff(want, out); code != exitDone || diff != "" {
			t.Errorf("%s: exit code %d, %s (-want +got):\n%s", name, code, talk, diff)
		}
	}
	outputs := map[string]string{
		"name": "reservationinstruction.liqo.io/res-paidpaid00-1\n", "jsonpath={.said.agreement.price.perHour}": "0.8",
	}
	for format, want := range outputs {
		if code, out, talk := show(t, append(here, "paid", "-o", format)...); code != exitDone || out != want {
			t.Errorf("-o %s: exit code %d, %q, want %q: %s", format, code, out, want, talk)
		}
	}
	for _, format := range []string{"json", "yaml"} {
		code, out, talk := show(t, append(here, "paid", "-o", format)...)
		if code != exitDone {
			t.Fatal(talk)
		}
		file := write("receipt."+format, []byte(out))
		code, text, talk := show(t, "--file", file, "--verify", "--ca-file", trusted)
		want := strings.ReplaceAll(paidText, "FROM", file) + "VERIFIED       signed by broker.example.com\n"
		if diff := cmp.Diff(want, text); code != exitDone || diff != "" {
			t.Errorf("%s file: exit code %d, %s (-want +got):\n%s", format, code, talk, diff)
		}
		if code, text, talk := show(t, "--file", file, "--verify", "--ca-file", foreign); code != exitAttention || text != "" || !strings.Contains(talk, "unknown authority") {
			t.Errorf("with another CA: exit code %d, %s%s", code, text, talk)
		}
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"none is kept":                 {append(here, "res-paidpaid11"), exitAttention, "keeps no receipt of res-paidpaid11: the broker sent no receipt"},
		"unknown":                      {append(here, "res-aaaaaaaaaa-7"), exitAttention, "keeps no receipt of res-aaaaaaaaaa-7"},
		"no request":                   {append(here, "nobody"), exitAttention, `no ResourceRequest "nobody"`},
		"the broker's cluster":         {[]string{"--kubeconfig", kubeconfig, "--context", "broker", "paid"}, exitAttention, "agents keep the receipts"},
		"neither name nor file":        {nil, exitUsage, "name either"},
		"verified without a CA":        {[]string{"--file", trusted, "--verify"}, exitUsage, "belong together"},
		"a file without a receipt":     {[]string{"--file", trusted}, exitAttention, "receipt"},
		"a file that does not exist":   {[]string{"--file", filepath.Join(folder, "no")}, exitAttention, "no such file"},
		"a CA file that holds no CA":   {[]string{"--file", filepath.Join(folder, "receipt.json"), "--verify", "--ca-file", filepath.Join(folder, "receipt.json")}, exitAttention, "no CA certificate"},
		"a format that does not exist": {append(here, "paid", "-o", "xml"), exitUsage, "--output"},
	} {
		if code, out, talk := show(t, tc.args...); code != tc.code || !strings.Contains(talk, tc.want) {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", name, code, tc.code, tc.want, out, talk)
		}
	}
}

// The instructions arrive in the order of their names, so that of placement 10 comes before that of placement 2.
func TestReceiptIsShownWithTheProblemOfItsOwnPlacement(t *testing.T) {
	signed := signReceipt(t, pkitest.New(t, "servers", signedAt))
	keep := func(number int32, signed *brokerv1alpha1.Receipt, problem string) keptReceipt {
		return keptReceipt{number, signed, view.Ref{Kind: "ProviderInstruction", Namespace: "n", Name: brokerv1alpha1.PlacementName("res-paidpaid00", number)}, problem}
	}
	const from = "ProviderInstruction n/res-paidpaid00-"
	for name, tc := range map[string]struct {
		all                                []keptReceipt
		from, problem, later, withoutOther string
	}{
		"the other one has a problem":    {[]keptReceipt{keep(10, signed, ""), keep(2, signed, "wrong amounts")}, from + "10", "", "", ""},
		"it has a problem":               {[]keptReceipt{keep(10, signed, "wrong amounts"), keep(2, signed, "")}, from + "10", "wrong amounts", "", "wrong amounts"},
		"the last one has no receipt":    {[]keptReceipt{keep(10, nil, ""), keep(2, signed, "")}, from + "2", "", "the agent keeps no receipt of the later placement res-paidpaid00-10", ""},
		"the last one has only a wrong":  {[]keptReceipt{keep(10, nil, "expired"), keep(2, signed, "")}, from + "2", "", "the agent keeps no receipt of the later placement res-paidpaid00-10: expired", "expired"},
		"none has one, the last problem": {[]keptReceipt{keep(10, nil, "expired"), keep(2, nil, "wrong amounts")}, "", "", "", "expired"},
		"there is none":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			v := &receiptView{}
			problem := v.showLast(tc.all)
			if diff := cmp.Diff([]string{tc.from, tc.problem, tc.later, tc.withoutOther}, []string{v.from, v.problem, v.later, problem}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A file with any changed byte is refused, unless it still contains exactly what was signed, for
// example if only white space changed.
func TestEveryChangedByteOfAReceiptFileIsRefused(t *testing.T) {
	ca := pkitest.New(t, "servers", signedAt)
	folder := t.TempDir()
	trusted := filepath.Join(folder, "ca.crt")
	if err := os.WriteFile(trusted, ca.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	genuine := receiptView{Receipt: *signReceipt(t, ca)}
	said, err := receipt.Read(&genuine.Receipt)
	if err != nil {
		t.Fatal(err)
	}
	genuine.Said, genuine.Name = *said, "res-paidpaid00-1"
	text, err := json.MarshalIndent(&genuine, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file, harmless := filepath.Join(folder, "receipt.json"), 0
	for i := range text {
		forged := bytes.Clone(text)
		forged[i] ^= 1
		if err := os.WriteFile(file, forged, 0o600); err != nil {
			t.Fatal(err)
		}
		got := &receiptView{from: file}
		if got.readFile(file) != nil || got.verifySignature(trusted) != nil {
			continue
		}
		if diff := cmp.Diff(genuine.Receipt, got.Receipt); diff != "" {
			t.Errorf("byte %d (%q) can be changed:\n%s", i, text[i], diff)
		}
		harmless++
	}
	if harmless > len(text)/4 {
		t.Errorf("%d of %d changes are harmless", harmless, len(text))
	}
}
