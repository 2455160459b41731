package ledger

import (
	"fmt"
	"time"
)

// Instant is a time in nanoseconds since the Unix epoch. It takes a third of the memory of a
// time.Time; every reservation has several. The zero Instant is the zero time.Time. In JSON, an
// Instant is written like a time.Time.
type Instant int64

func instantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixNano())
}

// Time returns the instant in UTC.
func (i Instant) Time() time.Time {
	if i.IsZero() {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

// seconds returns the instant in whole seconds since the Unix epoch.
func (i Instant) seconds() int64 { return int64(i) / int64(time.Second) }

// IsZero reports whether the instant is not set.
func (i Instant) IsZero() bool { return i == 0 }

// MarshalJSON implements json.Marshaler.
func (i Instant) MarshalJSON() ([]byte, error) { return i.Time().MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (i *Instant) UnmarshalJSON(text []byte) error {
	var t time.Time
	if err := t.UnmarshalJSON(text); err != nil {
		return fmt.Errorf("instant: %w", err)
	}
	*i = instantOf(t)
	return nil
}
