package console

import (
	"fmt"
	"html/template"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// shareRow is one resource with a bar that shows its use.
type shareRow struct {
	Resource                   string
	Total, Reserved, Own, Free string
	Bar                        template.HTML
}

func shareRows(shares []view.Share) []shareRow {
	rows := make([]shareRow, len(shares))
	for i, s := range shares {
		text := func(amount int64) string { return view.FormatAmount(s.Resource, amount) }
		rows[i] = shareRow{Resource: string(s.Resource), Total: text(s.Allocatable), Reserved: text(s.Reserved), Own: text(s.Own), Free: text(s.Free)}
		rows[i].Bar = drawBar(s, text)
	}
	return rows
}

// barUnits is the width of a bar in the units of the SVG image.
const barUnits = 200

// drawBar draws a share as SVG. The title contains the same figures, for people who cannot see the
// bar.
func drawBar(s view.Share, text func(int64) string) template.HTML {
	width := func(part int64) int64 {
		if s.Allocatable <= 0 || part <= 0 {
			return 0
		}
		return min(max(1, int64(float64(part)/float64(s.Allocatable)*barUnits)), barUnits)
	}
	reserved := width(s.Reserved)
	own := min(width(s.Own), barUnits-reserved)
	words := template.HTMLEscapeString(fmt.Sprintf("%s of %s reserved, %s own use", text(s.Reserved), text(s.Allocatable), text(s.Own)))
	return template.HTML(fmt.Sprintf( //nolint:gosec // the only text in it is escaped
		`<svg class="bar" viewBox="0 0 %d 10" preserveAspectRatio="none" role="img" aria-label="%s"><title>%s</title>`+
			`<rect class="free" width="%d" height="10"/><rect class="reserved" width="%d" height="10"/><rect class="own" x="%d" width="%d" height="10"/></svg>`,
		barUnits, words, words, barUnits, reserved, reserved, own))
}

// drawFree draws the reserved part of what all clusters lend in a plan.
func drawFree(name corev1.ResourceName, t *view.PlanTotals) template.HTML {
	share := view.Share{Resource: name, Allocatable: t.Lendable[name], Reserved: t.Lendable[name] - t.Free[name]}
	return drawBar(share, func(amount int64) string { return view.FormatAmount(name, amount) })
}
