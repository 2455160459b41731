package webhooks

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

const (
	// longestPreview is how long a dry run waits for the broker at most, longestAdvice how long the
	// creation of an object does.
	longestPreview, longestAdvice = 2 * time.Second, 500 * time.Millisecond
	// Limits for the quotes that a replica requests, as a burst and a rate per second: for one user, and for all
	// users together. The total rate is a tenth of the rate that the broker allows a member by default.
	userBurst, userRate   = 10, 1
	totalBurst, totalRate = 20, 5
	// usersKept is the number of users whose limiters a replica remembers.
	usersKept = 1024
)

// Previewer adds a quote to the dry run of a valid request, as warnings: what the broker would decide now. To the
// creation of one it adds only what is probably a mistake. It never refuses a request. If a dry run gets no quote, a
// warning says why.
type Previewer struct {
	now   func() time.Time
	total *rate.Limiter
	// mu prevents two requests from adding a limiter for the same user.
	mu    sync.Mutex
	users *lru.Cache
}

// NewPreviewer returns a Previewer. now returns the current time.
func NewPreviewer(now func() time.Time) *Previewer {
	return &Previewer{now: now, total: rate.NewLimiter(totalRate, totalBurst), users: lru.New(usersKept)}
}

// IsDryRun reports whether the admission request in ctx is a dry run.
func IsDryRun(ctx context.Context) bool {
	request, err := admission.RequestFromContext(ctx)
	return err == nil && request.DryRun != nil && *request.DryRun
}

// AddQuote adds the quote that ask returns to the verdict about a request. It does so only in a dry run, and if the
// verdict contains no error. waits is true if the request would wait in the queue when no cluster can serve it.
func (p *Previewer) AddQuote(ctx context.Context, v *Verdict, waits bool, ask func(context.Context) (*v1.Quote, error)) {
	if len(v.Errors) > 0 || !IsDryRun(ctx) {
		return
	}
	quote, problem := p.ask(ctx, longestPreview, ask)
	if quote == nil {
		preview := view.Preview{Problem: problem, Waits: waits}
		v.Warnings = append(v.Warnings, preview.Warnings()...)
		return
	}
	v.addAdvice(quote)
	v.Warnings = append(v.Warnings, previewOf(quote, waits).Warnings()...)
}

// AddAdvice adds the broker's warnings about a request to the verdict when the request is created. Dry runs get them
// from AddQuote. If the broker does not answer soon, there are none.
func (p *Previewer) AddAdvice(ctx context.Context, v *Verdict, ask func(context.Context) (*v1.Quote, error)) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil || request.Operation != admissionv1.Create || len(v.Errors) > 0 || IsDryRun(ctx) {
		return
	}
	if quote, _ := p.ask(ctx, longestAdvice, ask); quote != nil {
		v.addAdvice(quote)
	}
}

// addAdvice adds the warnings of a quote, each of which may begin with a field of the spec.
func (v *Verdict) addAdvice(quote *v1.Quote) {
	for _, warning := range quote.Warnings {
		v.Warn("%s", view.Clean(warning))
	}
}

// ask returns a quote, or why there is none.
func (p *Previewer) ask(ctx context.Context, longest time.Duration, ask func(context.Context) (*v1.Quote, error)) (quote *v1.Quote, problem string) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, err.Error()
	}
	if !p.admits(request.UserInfo.Username) {
		return nil, "too many dry runs at once: repeat it in a few seconds"
	}
	ctx, cancel := context.WithTimeout(ctx, min(longest, patience(ctx)))
	defer cancel()
	quote, err = ask(ctx)
	if err != nil {
		return nil, describeFailure(err)
	}
	return quote, ""
}

// describeFailure returns why there is no quote. A broker that refuses the quote would also refuse the request.
func describeFailure(err error) string {
	if no, refused := errors.AsType[*fault.Error](err); refused && !no.Temporary() {
		return "the broker would refuse it: " + no.Detail
	}
	return "the broker does not answer, so that its decision is not known: " + err.Error()
}

// admits reports whether the limits allow another quote for a user, and counts it.
func (p *Previewer) admits(user string) bool {
	p.mu.Lock()
	known, ok := p.users.Get(user)
	limiter, _ := known.(*rate.Limiter)
	if !ok {
		limiter = rate.NewLimiter(userRate, userBurst)
		p.users.Add(user, limiter)
	}
	p.mu.Unlock()
	now := p.now()
	return limiter.AllowN(now, 1) && p.total.AllowN(now, 1)
}

// previewOf converts an answer of the broker to a view.
func previewOf(q *v1.Quote, waits bool) *view.Preview {
	length := view.FormatHours(q.Hours)
	priceOf := func(perHour, total, currency string, unpriced []string) view.QuotedPrice {
		if currency == "" || perHour == "" {
			return view.QuotedPrice{}
		}
		return view.QuotedPrice{PerHour: perHour, Total: total, Currency: currency, For: length, NotPriced: unpriced}
	}
	out := &view.Preview{Provider: q.ClusterID, Waits: waits && q.ClusterID == "", Price: priceOf(q.PricePerHour, q.PriceTotal, q.Currency, q.NotPriced)}
	for _, c := range q.Candidates {
		if c.ClusterID == q.ClusterID && q.ClusterID != "" {
			continue
		}
		candidate := view.QuotedCandidate{ClusterID: c.ClusterID, Fits: c.Score != ""}
		if candidate.Fits {
			candidate.Price = priceOf(c.PricePerHour, c.PriceTotal, c.Currency, c.NotPriced)
		} else {
			candidate.Reason, candidate.Message = c.Reason, c.Message
		}
		out.Candidates = append(out.Candidates, candidate)
	}
	out.Summarize(q.Rejected)
	return out
}

// patienceKey is the key of the context value that withPatience sets.
type patienceKey struct{}

// withPatience stores how long the API server waits for the webhook. The URL of the admission request contains that
// time.
func withPatience(ctx context.Context, r *http.Request) context.Context {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 {
		return ctx
	}
	return context.WithValue(ctx, patienceKey{}, timeout)
}

// patience returns how long a preview may take. That is at most half of the time for which the API server waits, so
// that a broker that does not answer never causes a refusal.
func patience(ctx context.Context) time.Duration {
	timeout, known := ctx.Value(patienceKey{}).(time.Duration)
	if !known {
		return longestPreview
	}
	return min(longestPreview, timeout/2)
}
