package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// authenticator authenticates the users of a console.
type authenticator interface {
	// addPages adds the pages on which users log in and out.
	addPages(mux *http.ServeMux, s *site)
	// tokenOf returns the token of a request, or "".
	tokenOf(r *http.Request) string
	// refuse answers a request without a valid token.
	refuse(w http.ResponseWriter, r *http.Request, s *site)
}

// sessionCookie is the name of the cookie with the user's encrypted token. Because of the prefix __Host-, browsers
// accept it only over TLS, and send it only to exactly this host.
const (
	sessionCookie = "__Host-broker"
	sessionKept   = 12 * time.Hour
	// maxToken is the maximum length of a token that a user may paste. Browsers drop cookies above 4 KiB.
	maxToken = 2800
)

// sessions is an authenticator with a login page. It keeps the user's token encrypted in a cookie.
//
// The encryption key is derived from the private key of the server's certificate. All replicas have that private key,
// so they need no other secret. When cert-manager replaces the private key, users must log in again.
type sessions struct {
	key func() ([]byte, error)
	now func() time.Time
}

func sessionKey(certificate func() (*tls.Certificate, error)) func() ([]byte, error) {
	return func() ([]byte, error) {
		current, err := certificate()
		if err != nil {
			return nil, err
		}
		private, err := x509.MarshalPKCS8PrivateKey(current.PrivateKey)
		if err != nil {
			return nil, fmt.Errorf("key of the server's certificate: %w", err)
		}
		return hkdf.Key(sha256.New, private, nil, "liqo-resource-broker console session v1", 32)
	}
}

func (d *sessions) sessionCipher() (cipher.AEAD, error) {
	key, err := d.key()
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// cookieFor returns a cookie with the token. The cookie is valid for sessionKept, even if the token ends earlier.
func (d *sessions) cookieFor(token string) (*http.Cookie, error) {
	sealer, err := d.sessionCipher()
	if err != nil {
		return nil, err
	}
	ends := d.now().Add(sessionKept).UTC().Truncate(time.Second)
	sealed := sealer.Seal(nil, nil, []byte(ends.Format(time.RFC3339)+" "+token), []byte(sessionCookie))
	return &http.Cookie{
		Name: sessionCookie, Value: base64.RawURLEncoding.EncodeToString(sealed), Path: "/", MaxAge: int(sessionKept.Seconds()),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}, nil
}

// tokenIn returns the token in a cookie, or "" if the cookie is not valid or has expired.
func (d *sessions) tokenIn(cookie *http.Cookie) string {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return ""
	}
	opener, err := d.sessionCipher()
	if err != nil {
		return ""
	}
	text, err := opener.Open(nil, nil, sealed, []byte(sessionCookie))
	if err != nil {
		return ""
	}
	until, token, _ := strings.Cut(string(text), " ")
	ends, err := time.Parse(time.RFC3339, until)
	if err != nil || !d.now().Before(ends) {
		return ""
	}
	return token
}

func endedCookie() *http.Cookie {
	return &http.Cookie{Name: sessionCookie, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

// tokenOf returns the token in the Authorization header, otherwise the one in the cookie of the login page. A proxy
// can set the header. No other header identifies the user.
func (d *sessions) tokenOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return ""
	}
	return d.tokenIn(cookie)
}

// checkPasted returns the token in the text that a user pasted, or an error that says what is wrong with it.
func checkPasted(text string) (string, error) {
	token := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "Bearer "))
	switch {
	case token == "":
		return "", errors.New("paste a token first")
	case len(token) > maxToken:
		return "", fmt.Errorf("the token has %d characters; a browser keeps at most %d: use kubectl broker console instead", len(token), maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("the text contains characters that no token has: paste the token alone")
	}
	return token, nil
}

func (d *sessions) addPages(mux *http.ServeMux, s *site) {
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) { showLogin(s, w, r, http.StatusOK, "") })
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) { d.logIn(s, w, r) })
	mux.HandleFunc("POST /logout", logOut)
}

// refuse shows the login page.
func (d *sessions) refuse(w http.ResponseWriter, r *http.Request, s *site) {
	reason := ""
	if d.tokenOf(r) != "" {
		reason = "Your token is not valid, or no longer. Log in again."
	}
	showLogin(s, w, r, http.StatusUnauthorized, reason)
}

// loginPage is the data of the login page.
type loginPage struct {
	Problem, To string
	MostToken   int
}

func showLogin(s *site, w http.ResponseWriter, r *http.Request, status int, problem string) {
	to := r.URL.RequestURI()
	if r.URL.Path == "/login" {
		to = safeTarget(r.FormValue("to"))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	s.writeFrame(w, r, status, s.newFrame(nil, &content{Template: "login", Title: "Log in", Data: loginPage{Problem: problem, To: to, MostToken: maxToken}}))
}

// safeTarget returns the path to open after a login. It returns the start page if the requested target (to) is not a
// path of this console. Browsers drop tabs and line breaks from addresses, and read backslashes as slashes.
func safeTarget(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\t\r\n") || strings.HasPrefix(to, "/log") {
		return "/"
	}
	return to
}

func (d *sessions) logIn(s *site, w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	token, err := checkPasted(r.FormValue("token"))
	if err != nil {
		showLogin(s, w, r, http.StatusBadRequest, err.Error())
		return
	}
	switch _, err := s.reviews.identify(r.Context(), token); {
	case errors.Is(err, errUnauthenticated):
		showLogin(s, w, r, http.StatusUnauthorized, err.Error())
		return
	case err != nil:
		s.showProblem(w, r, nil, err)
		return
	}
	cookie, err := d.cookieFor(token)
	if err != nil {
		s.showProblem(w, r, nil, err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, safeTarget(r.FormValue("to")), http.StatusSeeOther)
}

func logOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, endedCookie())
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
