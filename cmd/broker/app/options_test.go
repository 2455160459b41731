package app

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestJournalRetentionIsConfigurable(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want time.Duration
		ok   bool
	}{
		"a day by default": {nil, 24 * time.Hour, true},
		"a week":           {[]string{"--journal-retention=168h"}, 168 * time.Hour, true},
		"none":             {[]string{"--journal-retention=0"}, -1, true},
		"below zero":       {[]string{"--journal-retention=-1h"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, fs := defaultOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
			o.bindFlags(fs)
			if err := fs.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			got, err := o.journalOptions()
			if (err == nil) != tc.ok || got.RetainFor != tc.want {
				t.Errorf("%s, %v, want %s", got.RetainFor, err, tc.want)
			}
		})
	}
}
