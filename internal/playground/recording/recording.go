// Package recording turns the output of a program into an animated SVG image, which browsers play without a script.
package recording

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Line is a line of output, and how long after the start it was complete.
type Line struct {
	After time.Duration
	Text  string
}

// Recorder is an io.Writer that remembers when each line was written. Its methods may be called concurrently.
type Recorder struct {
	out     io.Writer
	clock   clock.PassiveClock
	started time.Time

	mu    sync.Mutex // guards the fields below
	lines []Line
	rest  []byte // the last line, which is not complete
}

// New returns a Recorder that starts now and passes everything on to out.
func New(out io.Writer, c clock.PassiveClock) *Recorder {
	return &Recorder{out: out, clock: c, started: c.Now()}
}

// Write implements io.Writer.
func (r *Recorder) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = append(r.rest, text...)
	for {
		line, rest, complete := bytes.Cut(r.rest, []byte("\n"))
		if !complete {
			return r.out.Write(text)
		}
		r.lines = append(r.lines, Line{r.clock.Since(r.started), string(line)})
		r.rest = rest
	}
}

// Lines returns the complete lines so far.
func (r *Recorder) Lines() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Line(nil), r.lines...)
}

const (
	// longestPause is the longest time before a line that is not a heading. Longer pauses are cut.
	longestPause = 700 * time.Millisecond
	// leastPause is the shortest time before such a line, and betweenParts the time before each heading, so that people
	// can follow.
	leastPause, betweenParts = 90 * time.Millisecond, 1500 * time.Millisecond
	// lastPause is how long the last line is shown before the image starts again.
	lastPause = 8 * time.Second

	// columns and rows are the size of the shown terminal in characters. Longer lines are cut.
	columns, rows = 124, 26
	// textWidth is the width of a line of the terminal in pixels: a character of the font, which has a size of 11 px,
	// is 6.6 px wide. lineHeight and margin are in pixels too.
	textWidth, lineHeight, margin = columns * 66 / 10, 16, 14
)

// WriteSVG writes an image that shows the lines as a terminal does: each new line appears at the bottom, and older ones
// move up. For readers who prefer no motion it shows only the last lines.
func WriteSVG(out io.Writer, title string, lines []Line) error {
	starts, total := schedule(lines)
	width, height := textWidth+2*margin, rows*lineHeight+2*margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", width, height, html.EscapeString(title))
	b.WriteString("<style>\n" +
		"text{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}\n" +
		".h{fill:#58a6ff;font-weight:bold}.t{fill:#8b949e}\n")
	fmt.Fprintf(&b, "#all{transform:translateY(%dpx);animation:run %.2fs step-end infinite}\n@keyframes run{\n", offset(len(lines)), total.Seconds())
	fmt.Fprintf(&b, "0%%{transform:translateY(%dpx)}\n", offset(0))
	for i, start := range starts {
		fmt.Fprintf(&b, "%.3f%%{transform:translateY(%dpx)}\n", 100*start.Seconds()/total.Seconds(), offset(i+1))
	}
	b.WriteString("}\n@media (prefers-reduced-motion:reduce){#all{animation:none}}\n</style>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="6" fill="#0d1117"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<clipPath id="screen"><rect x="0" y="%d" width="%d" height="%d"/></clipPath>`+"\n"+`<g clip-path="url(#screen)"><g id="all">`+"\n", margin, width, rows*lineHeight)
	for i, l := range lines {
		if l.Text != "" {
			fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve"%s</text>`+"\n", margin, i*lineHeight+12, markUp(l.Text))
		}
	}
	b.WriteString("</g></g>\n</svg>\n")
	_, err := out.Write(b.Bytes())
	return err
}

// offset returns how far the text is moved down when n lines are shown: the last one is in the bottom row.
func offset(n int) int { return margin + (rows-n)*lineHeight }

// schedule returns when each line appears, and how long the image lasts.
func schedule(lines []Line) (starts []time.Duration, total time.Duration) {
	var before time.Duration
	for _, l := range lines {
		pause := min(max(l.After-before, leastPause), longestPause)
		if heading.MatchString(l.Text) {
			pause = betweenParts
		}
		total += pause
		before = l.After
		starts = append(starts, total)
	}
	return starts, total + lastPause
}

// timed and heading match the lines with a time and the headings that e2e.Story prints.
var (
	timed   = regexp.MustCompile(`^( +[0-9.]+s)(  .*)$`)
	heading = regexp.MustCompile(`^[0-9]+\. `)
)

// markUp returns the attributes and the content of the SVG text element for a line.
func markUp(line string) string {
	if runes := []rune(line); len(runes) > columns {
		line = string(runes[:columns-1]) + "…"
	}
	if heading.MatchString(line) {
		return ` class="h">` + html.EscapeString(line)
	}
	if parts := timed.FindStringSubmatch(line); parts != nil {
		return `><tspan class="t">` + parts[1] + `</tspan>` + html.EscapeString(parts[2])
	}
	return `>` + html.EscapeString(strings.TrimRight(line, " "))
}
