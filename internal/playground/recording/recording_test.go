package recording_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/recording"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestRecorderRemembersWhenLinesWereComplete(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	var out bytes.Buffer
	r := recording.New(&out, clock)
	for i, text := range []string{"one\nt", "w", "o\n\nthree"} {
		clock.SetTime(time.Unix(int64(i), 0))
		if _, err := io.WriteString(r, text); err != nil {
			t.Fatal(err)
		}
	}
	want := []recording.Line{{0, "one"}, {2 * time.Second, "two"}, {2 * time.Second, ""}}
	if diff := cmp.Diff(want, r.Lines()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if out.String() != "one\ntwo\n\nthree" {
		t.Errorf("passed on %q", out.String())
	}
}

func TestImageShowsEachLineAtItsTime(t *testing.T) {
	lines := []recording.Line{{0, "1. a heading"}, {time.Hour, "   0.05s  <b> & text"}, {time.Hour, strings.Repeat("x", 200)}}
	var image bytes.Buffer
	runtest.Check(t, recording.WriteSVG(&image, "a <title>", lines))
	texts := parse(t, image.Bytes())
	want := []string{"1. a heading", "   0.05s  <b> & text", strings.Repeat("x", 123) + "…"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	// 1.5 s before a heading, then a pause of an hour cut to 700 ms, then 90 ms, then 8 s for the last line.
	if !strings.Contains(image.String(), "animation:run 10.29s") {
		t.Errorf("wrong length: %s", regexp.MustCompile("animation:run[^;}]*").FindString(image.String()))
	}
	steps := regexp.MustCompile(`translateY\((-?\d+)px\)`).FindAllStringSubmatch(image.String(), -1)
	if got := fmt.Sprint(steps[len(steps)-1][1], " ", steps[0][1]); got != "382 382" {
		t.Errorf("the last step and the image without motion are at %s", got)
	}
}

// parse returns the texts of an image, which must be XML without scripts and links.
func parse(t *testing.T, image []byte) (texts []string) {
	t.Helper()
	decoder, current := xml.NewDecoder(bytes.NewReader(image)), ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		runtest.Check(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			if e.Name.Local == "script" || e.Name.Local == "a" {
				t.Errorf("element %s", e.Name.Local)
			}
			if e.Name.Local == "text" {
				current = ""
			}
		case xml.CharData:
			current += string(e)
		case xml.EndElement:
			if e.Name.Local == "text" {
				texts = append(texts, current)
			}
		}
	}
}
