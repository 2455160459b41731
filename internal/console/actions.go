package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

const (
	// maxForm is the maximum size of a form.
	maxForm = 64 << 10
	// changeShown is how long an answer waits until the console has heard of the change that the user made.
	changeShown = 3 * time.Second
	// changePoll is how often that is checked.
	changePoll = 50 * time.Millisecond
)

// action is a change that users can make with the console. The console makes it with the user's token, so the API server
// decides whether the user may.
type action struct {
	// name is the last part of the address, for example "release".
	name string
	// title is the heading, and done what the console says after the change.
	title, done string
	// prepare returns the page that asks the user to confirm. Its error is errNotFound if there is no object to change
	// that the user may list.
	prepare func(v *visit, form url.Values) (*actionPage, error)
}

// actionPage is the data of a page that asks the user to confirm a change.
type actionPage struct {
	// Question says what the change will cause.
	Question string
	Fields   []actionField
	// Button is the text of the button, and Back the address to which a user goes instead.
	Button, Back string
	// Problem is why the change failed, in the API server's own words; "" before the user has confirmed.
	Problem string
	// command is the command that makes the same change.
	command string
	// about is the object whose page shows the change.
	about view.Ref
	// run makes the change with the rights of its client.
	run func(ctx context.Context, c client.Client) error
}

// actionField is an input of the form. A Checkbox has the value "true" or "".
type actionField struct {
	Name, Label, Value, Example string
	Required, Checkbox, Hidden  bool
}

// actionLink is a link to the page of an action.
type actionLink struct{ Title, Address string }

// errBadForm means that the browser has sent a form that cannot be read.
var errBadForm = errors.New("the form cannot be read")

// actionNamed returns an action, or nil if there is none with this name.
func actionNamed(name string) *action {
	if i := slices.IndexFunc(actions, func(a action) bool { return a.name == name }); i >= 0 {
		return &actions[i]
	}
	return nil
}

// linkToAction returns a link to an action with the parameters of its form, or nothing if the console makes no changes.
func (v *visit) linkToAction(name string, parameters map[string]string) []actionLink {
	if !v.site.actions || v.snapshot.Record != 0 {
		return nil
	}
	return []actionLink{{actionNamed(name).title + "…", addressOf("/actions/"+name, parameters)}}
}

// linksToActions returns links to the named actions, for an object.
func (v *visit) linksToActions(about view.Ref, names ...string) (links []actionLink) {
	for _, name := range names {
		links = append(links, v.linkToAction(name, map[string]string{"kind": strings.ToLower(about.Kind), "namespace": about.Namespace, "name": about.Name})...)
	}
	return links
}

// buildAction returns the page that asks the user to confirm.
func buildAction(_ context.Context, v *visit) (*content, error) {
	a := actionNamed(v.request.PathValue("action"))
	if a == nil {
		return nil, errNotFound
	}
	if err := v.request.ParseForm(); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadForm, err)
	}
	p, err := a.prepare(v, v.request.Form)
	if err != nil {
		return nil, err
	}
	if p.Back == "" {
		p.Back = linkTo(p.about)
	}
	return &content{Template: "action", Title: a.title, Command: p.command, Data: p}, nil
}

// serveAction makes the change that a user has confirmed, and shows the object then. A browser sends a form of another
// site neither with the cookie nor past the CrossOriginProtection of newHandler.
func (s *site) serveAction(w http.ResponseWriter, r *http.Request, p page) {
	v, err := s.authenticateUser(r.Context(), r)
	if err != nil {
		s.showProblem(w, r, nil, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	c, err := v.fillPage(r.Context(), p)
	if err != nil {
		s.showProblem(w, r, v, err)
		return
	}
	data, before := c.Data.(*actionPage), s.objects.revision()
	to, err := s.users.editor(v.visitor.token)
	if err == nil {
		err = data.run(r.Context(), to)
	}
	if err != nil {
		data.Problem = err.Error()
		s.writeFrame(w, r, statusOf(err), s.newFrame(v, c))
		return
	}
	target := "/" // of a user who may not list the object
	if v.awaitChange(r.Context(), before, data.about) {
		target = linkTo(data.about)
	}
	http.Redirect(w, r, addressOf(target, map[string]string{"done": r.PathValue("action")}), http.StatusSeeOther)
}

// statusOf returns the status with which the API server refused a change, or Bad Request for a form that is not valid.
func statusOf(err error) int {
	var refusal apierrors.APIStatus
	if errors.As(err, &refusal) && refusal.Status().Code >= http.StatusBadRequest {
		return int(refusal.Status().Code)
	}
	return http.StatusBadRequest
}

// awaitChange waits until the console has heard of a change. It reports whether the visitor may then list the object.
func (v *visit) awaitChange(ctx context.Context, before uint64, about view.Ref) (shown bool) {
	ctx, cancel := context.WithTimeout(ctx, changeShown)
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, changePoll, true, func(ctx context.Context) (bool, error) { // the page is shown in any case
		whole, err := v.site.objects.snapshot(ctx)
		if err != nil {
			return false, err
		}
		part, err := v.visitor.limitTo(ctx, whole, about.Namespace)
		if err != nil {
			return false, err
		}
		shown = part.Has(about)
		return shown && whole.revision > before, nil
	})
	return shown
}

// subjectOf returns the object that a form names. It returns errNotFound if the visitor may not list it, or if it is of
// another kind than the given ones.
func (v *visit) subjectOf(form url.Values, kinds ...string) (view.Ref, error) {
	ref := view.Ref{Kind: view.KindNamed(form.Get("kind")), Namespace: form.Get("namespace"), Name: form.Get("name")}
	if !slices.Contains(kinds, ref.Kind) || !v.snapshot.Has(ref) {
		return view.Ref{}, errNotFound
	}
	return ref, nil
}

// parseLength parses the duration in a field of a form.
func parseLength(text, label string) (time.Duration, error) {
	length, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || length < 0 {
		return 0, fmt.Errorf("%s %q is no time: write for example 8h or 90m", label, text)
	}
	return length, nil
}
