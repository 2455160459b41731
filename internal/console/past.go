package console

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// PastSource shows the past of a broker's cluster with the rights of the console's user.
type PastSource interface {
	// At returns the cluster as it was. The text says when: how long ago, at which time, or at which position of the
	// journal.
	At(ctx context.Context, text string) (*view.Snapshot, error)
}

// pastCommands are the commands with the flag --at.
var pastCommands = []string{"status", "top", "why"}

// timeAsked returns the text that says which time of the past the user wants to see; "" for the present.
func (v *visit) timeAsked() string { return strings.TrimSpace(v.request.URL.Query().Get("at")) }

// fillPast builds a page that shows the past.
func (v *visit) fillPast(ctx context.Context, p page) (*content, error) {
	at := v.timeAsked()
	failed := &content{Title: "The past", Template: "problem", Command: withFlags("kubectl broker status", flagValue{"at", at})}
	switch {
	case !v.site.broker:
		failed.Template, failed.Data = "notice", "Only the broker's cluster has a journal of the past."
		return failed, nil
	case v.site.past == nil:
		failed.Template = "notice"
		failed.Data = "The console in the cluster does not show the past, which it would have to replay from the journal with the broker's rights. " +
			"The command below, and this page of kubectl broker console, do it on your computer with your rights."
		return failed, nil
	}
	past, err := v.site.past.At(ctx, at)
	if err != nil {
		failed.Data = problemPage{err.Error(), "Choose another time."}
		return failed, nil
	}
	v.snapshot = new(*past)
	c, err := p.build(ctx, v)
	if err != nil {
		return nil, err
	}
	c.Past = fmt.Sprintf("As it was on %s, replayed from the journal up to record %d", past.At.UTC().Format("2006-01-02 15:04:05 UTC"), past.Record)
	if !slices.ContainsFunc(pastCommands, func(verb string) bool { return strings.HasPrefix(c.Command, "kubectl broker "+verb) }) {
		c.Command = "kubectl broker status"
	}
	c.Command = v.selectCluster(withFlags(c.Command, flagValue{"at", at}))
	return c, nil
}

// templatesAt returns the templates whose links keep the time of the past; "" for the present.
func templatesAt(at string) (*template.Template, error) {
	if at == "" {
		return templates, nil
	}
	clone, err := parsedTemplates.Clone()
	if err != nil {
		return nil, err
	}
	return clone.Funcs(template.FuncMap{"link": func(r view.Ref) string {
		if path := linkTo(r); path != "" {
			return addressOf(path, map[string]string{"at": at})
		}
		return ""
	}}), nil
}
