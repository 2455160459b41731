package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

//go:embed assets templates
var files embed.FS

// assetPath is the path of scripts and styles. It contains a digest of their content, so browsers may cache them
// forever.
var assetPath = "/assets/" + digestOfAssets() + "/"

// securityHeaders forbid what the pages do not need: scripts and styles of other origins or inside of pages, frames,
// and referrers.
var securityHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Strict-Transport-Security":    "max-age=31536000",
}

// site is the state that all requests share.
type site struct {
	objects       source
	reviews       reviewer
	authenticator authenticator
	users         reader
	broker        bool
	member        bool
	name, version string
	// The following four are nil if the console does not read the journal.
	costs CostSource
	plans PlanSource
	audit AuditSource
	past  PastSource
	// used is Options.Used.
	used func() map[string]quantity.Amounts
	// actions is true if users may change objects, as far as the API server lets them.
	actions bool
	streams openStreams
	now     func() time.Time
	log     logr.Logger
}

// newHandler returns the handler for all addresses of the console.
func newHandler(s *site) http.Handler {
	mux := http.NewServeMux()
	assets, err := readAssets()
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET "+assetPath, http.StripPrefix(assetPath, assets))
	s.authenticator.addPages(mux, s)
	for _, p := range pages {
		if p.existsIn(s) {
			mux.HandleFunc("GET "+p.pattern, func(w http.ResponseWriter, r *http.Request) { s.servePage(w, r, p) })
			if p.acts {
				mux.HandleFunc("POST "+p.pattern, func(w http.ResponseWriter, r *http.Request) { s.serveAction(w, r, p) })
			}
			if !p.still {
				mux.HandleFunc("GET /live"+p.pattern, func(w http.ResponseWriter, r *http.Request) { s.serveStream(w, r, p) })
			}
		}
	}
	if s.broker {
		mux.HandleFunc("GET "+focusPath, s.serveFocus)
		mux.HandleFunc("GET "+exportPath, s.serveExport)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.showProblem(w, r, nil, errNotFound) })
	protected := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range securityHeaders {
			w.Header().Set(name, value)
		}
		protected.ServeHTTP(w, r)
	})
}

func digestOfAssets() string {
	digest := sha256.New()
	err := fs.WalkDir(files, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		fmt.Fprintf(digest, "%s %d\n", name, len(content))
		digest.Write(content)
		return err
	})
	if err != nil {
		panic(err) // the folder is embedded
	}
	return hex.EncodeToString(digest.Sum(nil))[:12]
}

// parsedTemplates are parsed when the program starts, so a template that cannot be parsed fails every test. Only clones of
// them are executed.
var parsedTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"asset": func(name string) string { return assetPath + name },
	"clean": view.Clean,
	"plain": view.PlainText,
	"link":  linkTo,
	"sign":  signOf,
	"join":  strings.Join,
}).ParseFS(files, "templates/*.html"))

// templates show the present.
var templates = template.Must(parsedTemplates.Clone())

// linkTo returns the address of the page about an object, or "" if there is none.
func linkTo(r view.Ref) string {
	if _, known := shownKinds[r.Kind]; !known || r.Name == "" {
		return ""
	}
	if r.Namespace == "" {
		return path.Join("/objects", strings.ToLower(r.Kind), r.Name)
	}
	return path.Join("/objects", strings.ToLower(r.Kind), r.Namespace, r.Name)
}

// signOf returns a sign for a level, for people who cannot distinguish the colours.
func signOf(l view.Level) string {
	switch l {
	case view.Failure:
		return "✖"
	case view.Warning:
		return "▲"
	}
	return "●"
}

// frame is the data of the layout around a page.
type frame struct {
	*content
	Site, Version string
	User          string
	// CanLogOut is true if the user can log out.
	CanLogOut  bool
	At         time.Time
	Navigation []navigationItem
	// Live is the address of the page's stream, or "" if it has none.
	Live string
	// Travels is true if the user can choose a time of the past, and When is the one chosen; "" for the present.
	Travels bool
	When    string
}

type navigationItem struct {
	Name, Path string
	Current    bool
}

// authenticateUser identifies the user of a request and returns a visit. It returns errUnauthenticated if there is no valid
// token.
func (s *site) authenticateUser(ctx context.Context, r *http.Request) (*visit, error) {
	token := s.authenticator.tokenOf(r)
	if token == "" {
		return nil, errUnauthenticated
	}
	info, err := s.reviews.identify(ctx, token)
	if err != nil {
		return nil, err
	}
	return &visit{site: s, visitor: &visitor{info: info, token: token, reviews: s.reviews}, request: r}, nil
}

// fillPage reads the objects that the user may list, and builds the page.
func (v *visit) fillPage(ctx context.Context, p page) (*content, error) {
	whole, err := v.site.objects.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	v.revision = whole.revision
	if p.past && v.timeAsked() != "" {
		return v.fillPast(ctx, p)
	}
	if v.snapshot, err = v.visitor.limitTo(ctx, whole, cmp.Or(v.request.PathValue("namespace"), v.request.URL.Query().Get("namespace"))); err != nil {
		return nil, err
	}
	c, err := p.build(ctx, v)
	if err != nil {
		return nil, err
	}
	c.Command = v.selectCluster(c.Command)
	if a := actionNamed(v.request.URL.Query().Get("done")); a != nil && v.site.actions && !p.acts {
		c.Done = a.done
	}
	return c, nil
}

// selectCluster adds the flags that select the cluster to a command of kubectl. It returns other commands unchanged.
func (v *visit) selectCluster(command string) string {
	for _, program := range []string{"kubectl broker ", "kubectl "} {
		if rest, ok := strings.CutPrefix(command, program); ok && v.snapshot.Flags != "" {
			return program + v.snapshot.Flags + " " + rest
		}
	}
	return command
}

func (s *site) servePage(w http.ResponseWriter, r *http.Request, p page) {
	v, err := s.authenticateUser(r.Context(), r)
	if err != nil {
		s.showProblem(w, r, nil, err)
		return
	}
	c, err := v.fillPage(r.Context(), p)
	if err != nil {
		s.showProblem(w, r, v, err)
		return
	}
	f := s.newFrame(v, c)
	if f.Travels = p.past && s.past != nil; p.past {
		f.When = v.timeAsked()
	}
	if v.snapshot != nil && v.snapshot.Record != 0 {
		f.At = v.snapshot.At.UTC()
	}
	if !p.still && f.When == "" {
		f.Live = "/live" + r.URL.RequestURI()
	}
	s.writeFrame(w, r, http.StatusOK, f)
}

func (s *site) newFrame(v *visit, c *content) *frame {
	f := &frame{content: c, Site: s.name, Version: s.version, At: s.now().UTC()}
	if v == nil {
		return f
	}
	f.User = v.visitor.info.Username
	_, f.CanLogOut = s.authenticator.(*sessions)
	for _, p := range pages {
		if p.name == "" || !p.existsIn(s) {
			continue
		}
		address := strings.TrimSuffix(p.pattern, "{$}")
		item := navigationItem{Name: p.name, Path: address, Current: v.request.URL.Path == address}
		if p.past && s.past != nil {
			item.Path = addressOf(address, map[string]string{"at": v.timeAsked()})
		}
		f.Navigation = append(f.Navigation, item)
	}
	return f
}

// writeFrame renders a template and sends it. It renders into memory first, so that an error does not leave half a
// page.
func (s *site) writeFrame(w http.ResponseWriter, r *http.Request, status int, f *frame) {
	text, err := renderTemplate("layout", f.When, f)
	if err != nil {
		s.log.Error(err, "page not rendered", "path", r.URL.Path)
		http.Error(w, "the page could not be rendered; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, r, status, text)
}

// renderTemplate renders a template. at is the time of the past that the page shows; "" for the present.
func renderTemplate(name, at string, data any) ([]byte, error) {
	var text bytes.Buffer
	all, err := templatesAt(at)
	if err != nil {
		return nil, err
	}
	err = all.ExecuteTemplate(&text, name, data)
	return text.Bytes(), err
}

// Body renders the template of the content.
func (f *frame) Body() (template.HTML, error) {
	text, err := renderTemplate(f.Template, f.When, f.Data)
	return template.HTML(text), err //nolint:gosec // it is the output of html/template
}

// serveFile sends a file that read returns. available is false if this console does not have the file.
func (s *site) serveFile(w http.ResponseWriter, r *http.Request, name, kind string, available bool, read func(context.Context) ([]byte, error)) {
	v, err := s.authenticateUser(r.Context(), r)
	switch {
	case err != nil:
		s.showProblem(w, r, nil, err)
		return
	case !available:
		s.showProblem(w, r, v, errNotFound)
		return
	}
	text, err := read(r.Context())
	if err != nil {
		s.showProblem(w, r, v, err)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, r, http.StatusOK, text)
}

// problemPage is the data of a page that says what went wrong, and what the user can do.
type problemPage struct{ Text, Do string }

// notMade is what strangers are told of an error.
const notMade = "This page could not be made; the log of the program says why."

func notFoundPage() *content {
	return &content{Template: "problem", Title: "Not found", Data: problemPage{"There is no such page or object, or you may not list it.", "Go to the overview, or ask an administrator for the right to list the kind."}}
}

// showProblem shows an error to the user: as the login page if the token is not valid, otherwise as a problem page.
func (s *site) showProblem(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	switch {
	case errors.Is(err, errUnauthenticated):
		s.authenticator.refuse(w, r, s)
	case errors.Is(err, errNotFound):
		s.writeFrame(w, r, http.StatusNotFound, s.newFrame(v, notFoundPage()))
	case errors.Is(err, errBadForm):
		c := &content{Template: "problem", Title: "Not valid", Data: problemPage{err.Error(), "Go back and correct it."}}
		s.writeFrame(w, r, http.StatusBadRequest, s.newFrame(v, c))
	default:
		if r.Context().Err() == nil { // otherwise strangers could fill the log by closing connections
			s.log.Error(err, "page failed", "path", r.URL.Path)
		}
		text := notMade
		if v != nil { // strangers are not told about the cluster
			text = "This page could not be made: " + err.Error()
		}
		c := &content{Template: "problem", Title: "Not available", Data: problemPage{text, "Load the page again in a moment."}}
		s.writeFrame(w, r, http.StatusServiceUnavailable, s.newFrame(v, c))
	}
}
