package app

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// checkFiles returns an error unless the files of a channel have every record from their first one to the
// newest of the journal, once, with the hashes of the journal.
func (s *site) checkFiles(folder string) error {
	s.t.Helper()
	store, err := journal.NewConfigMaps(s.plane.RESTConfig(), brokerNamespace)
	s.check(err)
	end, err := journal.End(s.t.Context(), store, broker.JournalName, journal.Options{})
	s.check(err)
	names, err := filepath.Glob(filepath.Join(folder, end.Journal, "*.jsonl*"))
	s.check(err)
	slices.Sort(names)
	last := journal.Place{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".jsonl") {
			var whole bytes.Buffer
			if _, err := trail.Finish(&whole, bytes.NewReader(text), end.Journal, time.Now(), nil); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			text = whole.Bytes()
		}
		found, places, err := trail.CheckExport(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if last.Hash != "" && (found.After != last.Position || found.Before != last.Hash) {
			return fmt.Errorf("%s begins after record %d, and the file before ends with record %d", name, found.After, last.Position)
		}
		last = journal.Place{Journal: found.ID, Position: found.Head, Hash: places[found.Head]}
	}
	if last != end {
		return fmt.Errorf("the files end at %+v, and the journal at %+v", last, end)
	}
	return nil
}

// TestKillAtEveryPointOfAnExportLosesNothing kills the broker after it has written to a file, and after it
// has compressed the file of the killed one.
func TestKillAtEveryPointOfAnExportLosesNothing(t *testing.T) {
	s := newSite(t, 0)
	killed, directory := t.TempDir(), t.TempDir()
	s.env = failpoint.Arm(killed, failpoint.FileWritten.After(3), failpoint.FileSealed)
	s.replicas = append(s.replicas, s.startReplica("broker-0", "--export-directory="+directory))
	s.lend("paris", "1000")
	config := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName}}
	config.Spec.Notifications = []brokerv1alpha1.NotificationChannel{
		{Name: "archive", Events: []string{"journal.record"}, Files: &brokerv1alpha1.FilesTarget{}},
	}
	s.check(s.Create(t.Context(), config))
	s.await("kills at every point", func() error {
		s.reserveAndRelease([]string{s.replicas[0].url}, 2, fmt.Sprintf("at-%d", time.Now().UnixNano()))
		markers, err := os.ReadDir(killed)
		if err == nil && len(markers) < len(failpoint.Exporting) {
			err = errors.New("not every point has killed the broker")
		}
		return err
	})
	s.reserveAndRelease([]string{s.replicas[0].url}, 3, "at-the-end")
	s.await("all records", func() error { return s.checkFiles(filepath.Join(directory, "archive")) })
}
