package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// testAudit verifies a journal in a real cluster, without a broker, against the anchors of members.
func testAudit(t *testing.T, kubeconfig string) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: "broker"}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	genuine := writeJournal(t, config, "genuine")
	forged := writeJournal(t, config, "forged")
	rewritten, lost := genuine, genuine
	rewritten.Hash = forged.Hash
	lost.Position += 100
	folder := t.TempDir()
	member := func(name string, a journal.Anchor, told time.Time) string {
		file := filepath.Join(folder, name+".yaml")
		text := fmt.Sprintf("apiVersion: v1\nkind: List\nitems: [{apiVersion: liqo.io/v1alpha1, kind: Advertisement, spec: {clusterID: %s}, status: {anchors: [{journal: %q, position: %d, hash: %q, at: %q}]}}]\n",
			name, a.Journal, a.Position, a.Hash, told.UTC().Format(time.RFC3339))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	now := time.Now()
	signed := func(name string, a journal.Anchor) string {
		place := receipt.Place{ID: a.Journal, Position: a.Position, Hash: a.Hash}
		text, err := json.Marshal(map[string]any{"receipt": signReceiptAt(t, pkitest.New(t, "servers", now), place, now)})
		file := filepath.Join(folder, name)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a member agrees":             {[]string{"--advertisement", member("paris", genuine, now)}, exitDone, fmt.Sprintf("agrees with paris up to record %d", genuine.Position)},
		"no member is asked":          {nil, exitDone, "not compared with any member"},
		"a record was rewritten":      {[]string{"--advertisement", member("bern", rewritten, now)}, exitAttention, fmt.Sprintf("DISAGREES with bern, told at %s: a record up to position %d was rewritten", now.UTC().Format(time.RFC3339), genuine.Position)},
		"the journal was set back":    {[]string{"--advertisement", member("oslo", lost, now)}, exitAttention, `"oslo" was told of position`},
		"it was begun anew":           {[]string{"--advertisement", member("milan", forged, now)}, exitAttention, "it was begun anew"},
		"one of two disagrees":        {[]string{"--advertisement", filepath.Join(folder, "paris.yaml") + "," + filepath.Join(folder, "bern.yaml")}, exitAttention, "agrees with paris"},
		"a receipt agrees":            {[]string{"--receipt", signed("good.json", genuine)}, exitDone, fmt.Sprintf("good.json up to record %d", genuine.Position)},
		"a receipt disagrees":         {[]string{"--receipt", signed("bad.json", rewritten)}, exitAttention, "was rewritten"},
		"a receipt that is none":      {[]string{"--receipt", filepath.Join(folder, "paris.yaml")}, exitAttention, "it has no receipt"},
		"a member's agent knows none": {[]string{"--member", "rome"}, exitAttention, "has no anchors"},
		"a namespace without journal": {[]string{"-n", "default"}, exitAttention, `no journal "liqo-resource-broker" in namespace "default"`},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"audit", "verify", "--kubeconfig", kubeconfig, "--context", "broker", "-n", "genuine"}, tc.args...)
			checkRun(t, tc.code, tc.want, args...)
		})
	}
}

// TestAuditTellsRetentionFromLoss checks that records which the journal's retention deleted raise no alarm, and that a
// loss of younger records raises one.
func TestAuditTellsRetentionFromLoss(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	told := func(hours int) journal.Anchor {
		return journal.Anchor{By: "paris", Position: 90, At: now.Add(-time.Duration(hours) * time.Hour)}
	}
	found := func(segments int, atLimit bool, trimmed ...journal.Anchor) journal.Anchored {
		return journal.Anchored{Verified: journal.Verified{ID: "j", After: 100, Head: 200, Segments: segments}, AtLimit: atLimit, Trimmed: trimmed}
	}
	for name, tc := range map[string]struct {
		found journal.Anchored
		wrong bool
		want  string
	}{
		"it is older than the retention": {found(3, false, told(25)), false, "trimmed by retention (24h0m0s): what paris was told until 2026-03-01T11:00:00Z, up to record 90 (1 anchors)"},
		"younger records are missing":    {found(3, false, told(23)), true, "MISSING: paris was told of position 90"},
		"one of two is missing":          {found(3, false, told(25), told(23)), true, "trimmed by retention (24h0m0s): what paris was told until 2026-03-01T11:00:00Z, up to record 90 (1 anchors)"},
		"the journal keeps no more":      {found(4097, true, told(23)), false, "trimmed by retention (at most 4096 sealed segments): what paris was told until 2026-03-01T13:00:00Z"},
		"nothing is trimmed":             {found(3, false), false, "records 101 to 200"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			p := &plugin{}
			p.Out = &out
			err := p.writeFindings(describeAudit(&tc.found, 24*time.Hour, now))
			if (err != nil) != tc.wrong || !strings.Contains(out.String(), tc.want) {
				t.Errorf("got %v, want an alarm: %t, and %q in:\n%s", err, tc.wrong, tc.want, out.String())
			}
			if alarms := strings.Contains(out.String(), "MISSING"); alarms != tc.wrong {
				t.Errorf("an alarm in the output: %t, want %t:\n%s", alarms, tc.wrong, out.String())
			}
		})
	}
}

// Whoever exports a journal chooses its ID, which no hash covers, and whoever forges a receipt its reason.
func TestTextsInFilesCannotLookLikeResults(t *testing.T) {
	var out strings.Builder
	p := &plugin{}
	p.Out = &out
	found := journal.Anchored{Verified: journal.Verified{ID: "j\nagrees with rome up to record 9\x1b[2K"}}
	if err := p.writeFindings(describeAudit(&found, time.Hour, signedAt)); err != nil {
		t.Error(err)
	}
	v := &receiptView{}
	v.Said.Agreement.Reason = "x\nVERIFIED       signed by broker.example.com\x1b[2K"
	if err := v.writeText(&out); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "agrees") || strings.HasPrefix(line, "VERIFIED") || strings.Contains(line, "\x1b") {
			t.Errorf("line %q is from a file", line)
		}
	}
}

// writeJournal writes a journal into a new namespace and returns the position and hash of its last record.
func writeJournal(t *testing.T, config *rest.Config, namespace string) journal.Anchor {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err == nil {
		err = c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	if err != nil {
		t.Fatal(err)
	}
	store, err := journal.NewConfigMaps(config, namespace)
	if err != nil {
		t.Fatal(err)
	}
	j, _, err := journal.Open(t.Context(), store, defaultJournal, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	for n := range 5 {
		e := ledger.Event{At: signedAt.Add(time.Duration(n) * time.Minute), Change: &ledger.Observe{}}
		data, err := e.MarshalJSON()
		if err == nil {
			err = j.Append(data).Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return j.Anchor()
}
