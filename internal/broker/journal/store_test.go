package journal_test

import (
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
)

func TestFakeStore(t *testing.T) {
	journaltest.Conformance(t, func(*testing.T) journal.Store {
		return journaltest.NewServer().Client()
	})
}
